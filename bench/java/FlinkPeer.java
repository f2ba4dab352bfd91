// Flink CDC without a sink. Prints when its first and last records came, in seconds, as JSON.

import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cdc.connectors.mysql.source.MySqlSource;
import org.apache.flink.cdc.connectors.mysql.table.StartupOptions;
import org.apache.flink.cdc.connectors.shaded.org.apache.kafka.connect.source.SourceRecord;
import org.apache.flink.cdc.debezium.DebeziumDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public class FlinkPeer {
    static final AtomicLong RECORDS = new AtomicLong();
    static volatile long first;

    public static class Counting implements DebeziumDeserializationSchema<Long> {
        @Override
        public void deserialize(SourceRecord record, Collector<Long> out) {
            if (RECORDS.getAndIncrement() == 0) {
                first = System.currentTimeMillis();
            }
        }

        @Override
        public TypeInformation<Long> getProducedType() {
            return Types.LONG;
        }
    }

    public static void main(String[] args) throws Exception {
        // port user password table records [file position GTIDs-before]
        long wanted = Long.parseLong(args[4]);
        boolean log = args.length > 5;
        Properties jdbc = new Properties();
        jdbc.setProperty("useSSL", "false");
        MySqlSource<Long> source = MySqlSource.<Long>builder()
            .hostname("127.0.0.1").port(Integer.parseInt(args[0])).username(args[1]).password(args[2])
            .databaseList(args[3].split("\\.")[0]).tableList(args[3]).serverId("5400-5404").serverTimeZone("+02:00")
            .jdbcProperties(jdbc)
            .startupOptions(log ? StartupOptions.specificOffset(args[5], Long.parseLong(args[6])) : StartupOptions.snapshot())
            .deserializer(new Counting()).build();
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment();
        flink.setParallelism(2);
        flink.enableCheckpointing(1000);
        flink.getConfig().enableObjectReuse();
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "mysql").sinkTo(new DiscardingSink<>());
        var job = flink.executeAsync();
        job.getJobExecutionResult().whenComplete((done, error) -> {
            if (error != null) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
        });
        while (RECORDS.get() < wanted) {
            Thread.sleep(5);
        }
        double last = System.currentTimeMillis() / 1e3;
        System.out.printf(java.util.Locale.ROOT, "{\"records\":%d,\"first\":%f,\"last\":%f}%n", RECORDS.get(), first / 1e3, last);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
