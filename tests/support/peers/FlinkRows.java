// Flink's own formats for JSON, without a cluster: what a table of Flink SQL would read of messages.
//
// In, a line of JSON for each question: the `format`, whether messages have their `schema`, the `timestamps` (SQL or
// ISO_8601), the `type` of rows, and `messages`. Out, for each message its rows, [["+I", value…], …], or {"error": …}.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.canal.CanalJsonDeserializationSchema;
import org.apache.flink.formats.json.debezium.DebeziumJsonDeserializationSchema;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.util.Collector;

public class FlinkRows {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            out.println(answer(JSON.readTree(line)));
        }
    }

    static JsonNode answer(JsonNode asked) throws Exception {
        RowType type = (RowType) LogicalTypeParser.parse(asked.get("type").asText(), FlinkRows.class.getClassLoader());
        var format = format(asked, type);
        format.open(null);
        ArrayNode answers = JSON.createArrayNode();
        for (JsonNode message : asked.get("messages")) {
            List<RowData> rows = new ArrayList<>();
            try {
                format.deserialize(message.isNull() ? null : message.asText().getBytes(StandardCharsets.UTF_8), into(rows));
                ArrayNode found = answers.addArray();
                rows.forEach(row -> found.add(shown(row, type)));
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answers.addObject().put("error", cause.toString());
            }
        }
        return answers;
    }

    static DeserializationSchema<RowData> format(JsonNode asked, RowType type) {
        DataType rows = TypeConversions.fromLogicalToDataType(type);
        var produced = InternalTypeInfo.<RowData>of(type);
        var timestamps = TimestampFormat.valueOf(asked.get("timestamps").asText());
        if (asked.get("format").asText().equals("canal-json")) {
            return CanalJsonDeserializationSchema.builder(rows, List.of(), produced).setTimestampFormat(timestamps).build();
        }
        boolean schema = asked.get("schema").asBoolean();
        return new DebeziumJsonDeserializationSchema(rows, List.of(), produced, schema, false, timestamps);
    }

    static Collector<RowData> into(List<RowData> rows) {
        return new Collector<>() {
            @Override
            public void collect(RowData row) {
                rows.add(row);
            }

            @Override
            public void close() {}
        };
    }

    static ArrayNode shown(RowData row, RowType type) {
        ArrayNode out = JSON.createArrayNode().add(row.getRowKind().shortString());
        for (int at = 0; at < type.getFieldCount(); at++) {
            Object value = RowData.createFieldGetter(type.getTypeAt(at), at).getFieldOrNull(row);
            if (value instanceof byte[] bytes) {
                out.add(Base64.getEncoder().encodeToString(bytes));
            } else if (value instanceof DecimalData number) {
                out.add(number.toBigDecimal().toPlainString());
            } else {
                out.add(value == null ? null : value.toString());
            }
        }
        return out;
    }
}
