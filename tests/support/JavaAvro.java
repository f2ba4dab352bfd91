import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Conversion;
import org.apache.avro.Conversions;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.util.TimePeriod;

/**
 * Avro's own implementation, asked line by line; tests/support/java_avro.py says what a question and an answer are.
 *
 * <p>Values are JSON as rows have it. A number stands in an object that says how it is to be compared: $float and
 * $double with its bits, $decimal with its digits.
 */
public class JavaAvro {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
  private static final GenericData DATA = new GenericData();
  private static final DateTimeFormatter TIME =
      new DateTimeFormatterBuilder()
          .appendPattern("HH:mm:ss")
          .appendFraction(ChronoField.NANO_OF_SECOND, 0, 9, true)
          .toFormatter();
  private static final DateTimeFormatter MOMENT =
      new DateTimeFormatterBuilder().appendPattern("uuuu-MM-dd ").append(TIME).toFormatter();
  private static final long FIRST = LocalDate.of(1, 1, 1).toEpochDay();
  private static final long LAST = LocalDate.of(9999, 12, 31).toEpochDay();
  private static final int DEEPEST = 5;
  private static final int MOST_DIGITS = 38;

  static {
    List<Conversion<?>> conversions =
        List.of(
            new Conversions.DecimalConversion(),
            new Conversions.BigDecimalConversion(),
            new Conversions.UUIDConversion(),
            new Conversions.DurationConversion(),
            new TimeConversions.DateConversion(),
            new TimeConversions.TimeMillisConversion(),
            new TimeConversions.TimeMicrosConversion(),
            new TimeConversions.TimestampMillisConversion(),
            new TimeConversions.TimestampMicrosConversion(),
            new TimeConversions.LocalTimestampMillisConversion(),
            new TimeConversions.LocalTimestampMicrosConversion());
    conversions.forEach(DATA::addLogicalTypeConversion);
  }

  public static void main(String[] arguments) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }
  }

  private static ObjectNode answer(JsonNode question) throws IOException {
    ObjectNode out = NODES.objectNode();
    Schema writer;
    Schema reader;
    try {
      writer = new Schema.Parser().parse(question.get("writer").textValue());
      reader = question.has("reader") ? new Schema.Parser().parse(question.get("reader").textValue()) : writer;
    } catch (AvroRuntimeException exc) {
      return out.put("refused", exc.toString());
    }
    out.put("fits", SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getType().toString());
    ArrayNode found = out.putArray("messages");
    if (question.has("messages")) {
      for (JsonNode message : question.get("messages")) {
        found.add(read(writer, reader, Base64.getDecoder().decode(message.textValue())));
      }
      return out;
    }
    Random random = new Random(question.get("seed").longValue());
    for (int i = question.get("count").intValue(); i > 0; i--) {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
      new GenericDatumWriter<>(writer, DATA).write(any(writer, random, 0), encoder);
      encoder.flush();
      ObjectNode message = read(writer, reader, bytes.toByteArray());
      found.add(message.put("bytes", Base64.getEncoder().encodeToString(bytes.toByteArray())));
    }
    return out;
  }

  private static ObjectNode read(Schema writer, Schema reader, byte[] bytes) {
    ObjectNode out = NODES.objectNode();
    BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(bytes, null);
    try {
      Object datum = new GenericDatumReader<>(writer, reader, DATA).read(null, decoder);
      if (!decoder.isEnd()) {
        return out.put("error", "the message is longer");
      }
      out.set("value", said(reader, datum));
    } catch (RuntimeException | IOException exc) {
      out.put("error", exc.toString());
    }
    return out;
  }

  // -- values that a schema has ---------------------------------------------------------------------------------

  private static Object any(Schema schema, Random random, int depth) {
    LogicalType logical = schema.getLogicalType();
    Object found = logical == null ? null : anyLogical(logical, random);
    return found == null ? anyPlain(schema, random, depth) : found;
  }

  private static Object anyLogical(LogicalType logical, Random random) {
    long day = FIRST + random.nextLong(LAST - FIRST + 1);
    long micros = random.nextLong(86_400_000_000L);
    LocalTime time = LocalTime.ofNanoOfDay((random.nextInt(4) == 0 ? micros / 1_000_000 * 1_000_000 : micros) * 1000);
    LocalTime coarse = time.truncatedTo(ChronoUnit.MILLIS);
    LocalDate date = LocalDate.ofEpochDay(day);
    return switch (logical.getName()) {
      case "date" -> date;
      case "time-millis" -> coarse;
      case "time-micros" -> time;
      case "timestamp-millis" -> date.atTime(coarse).toInstant(ZoneOffset.UTC);
      case "timestamp-micros" -> date.atTime(time).toInstant(ZoneOffset.UTC);
      case "local-timestamp-millis" -> date.atTime(coarse);
      case "local-timestamp-micros" -> date.atTime(time);
      case "uuid" -> new UUID(random.nextLong(), random.nextLong());
      case "duration" -> TimePeriod.of(random.nextLong(1L << 32), random.nextLong(1L << 32), random.nextLong(1L << 32));
      case "big-decimal" -> new BigDecimal(new BigInteger(random.nextInt(200), random), random.nextInt(30)).negate();
      case "decimal" -> anyDecimal((LogicalTypes.Decimal) logical, random);
      default -> null;
    };
  }

  private static BigDecimal anyDecimal(LogicalTypes.Decimal decimal, Random random) {
    BigInteger bound = BigInteger.TEN.pow(1 + random.nextInt(decimal.getPrecision()));
    BigInteger number = new BigInteger(bound.bitLength() + 8, random).mod(bound);
    return new BigDecimal(random.nextBoolean() ? number : number.negate(), decimal.getScale());
  }

  private static Object anyPlain(Schema schema, Random random, int depth) {
    return switch (schema.getType()) {
      case NULL -> null;
      case BOOLEAN -> random.nextBoolean();
      case INT -> random.nextInt() >> random.nextInt(32);
      case LONG -> random.nextLong() >> random.nextInt(64);
      case FLOAT -> anyFloat(random);
      case DOUBLE -> anyDouble(random);
      case STRING -> anyText(random);
      case BYTES -> ByteBuffer.wrap(anyBytes(random, random.nextInt(12)));
      case FIXED -> new GenericData.Fixed(schema, anyBytes(random, schema.getFixedSize()));
      case ENUM -> new GenericData.EnumSymbol(schema, anyOf(schema.getEnumSymbols(), random));
      case UNION -> any(depth < DEEPEST ? anyOf(schema.getTypes(), random) : schema.getTypes().get(0), random, depth);
      case ARRAY -> anyItems(schema, random, depth);
      case MAP -> anyPairs(schema, random, depth);
      case RECORD -> anyRecord(schema, random, depth);
    };
  }

  private static <T> T anyOf(List<T> several, Random random) {
    return several.get(random.nextInt(several.size()));
  }

  private static float anyFloat(Random random) {
    float found = random.nextBoolean() ? random.nextInt(100) / 10f : Float.intBitsToFloat(random.nextInt());
    return Float.isFinite(found) ? found : 0.1f;
  }

  private static double anyDouble(Random random) {
    double found = random.nextBoolean() ? random.nextInt(100) / 10.0 : Double.longBitsToDouble(random.nextLong());
    return Double.isFinite(found) ? found : 0.1;
  }

  private static byte[] anyBytes(Random random, int size) {
    byte[] out = new byte[size];
    random.nextBytes(out);
    return out;
  }

  private static String anyText(Random random) {
    StringBuilder out = new StringBuilder();
    for (int i = random.nextInt(10); i > 0; i--) {
      int point = random.nextInt(random.nextBoolean() ? 0x80 : Character.MAX_CODE_POINT + 1);
      out.appendCodePoint(point >= Character.MIN_SURROGATE && point <= Character.MAX_SURROGATE ? 'ß' : point);
    }
    return out.toString();
  }

  private static List<Object> anyItems(Schema schema, Random random, int depth) {
    List<Object> out = new ArrayList<>();
    for (int i = depth < DEEPEST ? random.nextInt(4) : 0; i > 0; i--) {
      out.add(any(schema.getElementType(), random, depth + 1));
    }
    return out;
  }

  private static Map<String, Object> anyPairs(Schema schema, Random random, int depth) {
    Map<String, Object> out = new LinkedHashMap<>();
    for (int i = depth < DEEPEST ? random.nextInt(4) : 0; i > 0; i--) {
      out.put(anyText(random), any(schema.getValueType(), random, depth + 1));
    }
    return out;
  }

  private static GenericData.Record anyRecord(Schema schema, Random random, int depth) {
    GenericData.Record out = new GenericData.Record(schema);
    for (Schema.Field field : schema.getFields()) {
      out.put(field.pos(), any(field.schema(), random, depth + 1));
    }
    return out;
  }

  // -- values as JSON -------------------------------------------------------------------------------------------

  private static JsonNode said(Schema schema, Object datum) {
    if (datum == null) {
      return NODES.nullNode();
    }
    if (schema.getType() == Schema.Type.UNION) {
      return said(schema.getTypes().get(DATA.resolveUnion(schema, datum)), datum);
    }
    LogicalType logical = schema.getLogicalType();
    if (logical != null) {
      JsonNode found = saidLogical(logical, datum);
      if (found != null) {
        return found;
      }
    }
    return switch (schema.getType()) {
      case BOOLEAN -> NODES.booleanNode((Boolean) datum);
      case INT, LONG -> NODES.numberNode(((Number) datum).longValue());
      case FLOAT -> NODES.objectNode().put("$float", Float.floatToIntBits((Float) datum));
      case DOUBLE -> NODES.objectNode().put("$double", Double.doubleToLongBits((Double) datum));
      case BYTES -> bytes(((ByteBuffer) datum).duplicate());
      case FIXED -> bytes(ByteBuffer.wrap(((GenericFixed) datum).bytes()));
      case ARRAY -> saidItems(schema, (Iterable<?>) datum);
      case MAP -> saidPairs(schema, (Map<?, ?>) datum);
      case RECORD -> saidRecord(schema, (IndexedRecord) datum);
      default -> NODES.textNode(datum.toString());
    };
  }

  private static JsonNode saidLogical(LogicalType logical, Object datum) {
    if (datum instanceof BigDecimal number) {
      boolean text = !(logical instanceof LogicalTypes.Decimal decimal) || decimal.getPrecision() > MOST_DIGITS;
      String digits = number.toPlainString();
      return text ? NODES.textNode(digits) : NODES.objectNode().put("$decimal", digits);
    }
    if (datum instanceof TimePeriod period) {
      ObjectNode out = NODES.objectNode().put("months", period.getMonths());
      return out.put("days", period.getDays()).put("milliseconds", period.getMillis());
    }
    if (datum instanceof LocalTime time) {
      return NODES.textNode(TIME.format(time));
    }
    if (datum instanceof LocalDateTime moment) {
      return NODES.textNode(MOMENT.format(moment));
    }
    if (datum instanceof Instant instant) {
      return NODES.textNode(MOMENT.format(instant.atOffset(ZoneOffset.UTC)) + "Z");
    }
    return datum instanceof LocalDate || datum instanceof UUID ? NODES.textNode(datum.toString()) : null;
  }

  private static JsonNode bytes(ByteBuffer buffer) {
    byte[] out = new byte[buffer.remaining()];
    buffer.get(out);
    return NODES.textNode(Base64.getEncoder().encodeToString(out));
  }

  private static JsonNode saidItems(Schema schema, Iterable<?> items) {
    ArrayNode out = NODES.arrayNode();
    items.forEach(item -> out.add(said(schema.getElementType(), item)));
    return out;
  }

  private static JsonNode saidPairs(Schema schema, Map<?, ?> pairs) {
    ObjectNode out = NODES.objectNode();
    pairs.forEach((name, value) -> out.set(name.toString(), said(schema.getValueType(), value)));
    return out;
  }

  private static JsonNode saidRecord(Schema schema, IndexedRecord record) {
    ObjectNode out = NODES.objectNode();
    for (Schema.Field field : schema.getFields()) {
      out.set(field.name(), said(field.schema(), record.get(field.pos())));
    }
    return out;
  }
}
