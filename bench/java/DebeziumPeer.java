// Debezium's embedded engine without a sink. Prints when its first and last records came, in seconds, as JSON.
// With an address of Kafka, it is what fills the topic `bench` with Debezium's messages instead.

import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.ObjectOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class DebeziumPeer {
    static long records;
    static double first;

    public static void main(String[] args) throws Exception {
        // port user password table records [file position GTIDs-before [Kafka's address]]
        long wanted = Long.parseLong(args[4]);
        boolean log = args.length > 5;
        Path offsets = Files.createTempFile("debezium", ".offsets");
        Properties properties = new Properties();
        properties.putAll(new HashMap<>() {{
            put("name", "bench");
            put("connector.class", "io.debezium.connector.mariadb.MariaDbConnector");
            put("database.hostname", "127.0.0.1");
            put("database.port", args[0]);
            put("database.user", args[1]);
            put("database.password", args[2]);
            put("database.ssl.mode", "disable");
            put("database.server.id", "4712");
            put("topic.prefix", "bench");
            put("table.include.list", args[3]);
            put("include.schema.changes", "false");
            put("tombstones.on.delete", "false");
            put("schema.history.internal", "io.debezium.relational.history.MemorySchemaHistory");
            put("snapshot.mode", log ? "recovery" : "initial_only");
            put("snapshot.locking.mode", "none");
            put("offset.storage", "org.apache.kafka.connect.storage.FileOffsetBackingStore");
            put("offset.storage.file.filename", offsets.toString());
            put("key.converter.schemas.enable", "false");
            put("value.converter.schemas.enable", "false");
        }});
        Files.delete(offsets);
        if (log) {
            HashMap<byte[], byte[]> stored = new HashMap<>();
            String place = String.format("{\"file\":\"%s\",\"pos\":%s,\"gtids\":\"%s\"}", args[5], args[6], args[7]);
            stored.put("[\"bench\",{\"server\":\"bench\"}]".getBytes(), place.getBytes());
            try (ObjectOutputStream out = new ObjectOutputStream(Files.newOutputStream(offsets))) {
                out.writeObject(stored);
            }
        }
        DebeziumEngine<?> engine = args.length > 8 ? filling(properties, wanted, args[8]) : counting(properties, wanted);
        Executors.newSingleThreadExecutor().execute(engine);
    }

    static DebeziumEngine<?> counting(Properties properties, long wanted) {
        return DebeziumEngine.create(Connect.class).using(properties).using(DebeziumPeer::failed)
            .notifying((events, committer) -> {
                for (var event : events) {
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
                count(events.size(), wanted);
            }).build();
    }

    static DebeziumEngine<?> filling(Properties properties, long wanted, String kafka) {
        Properties client = new Properties();
        client.putAll(new HashMap<>() {{
            put("bootstrap.servers", kafka);
            put("linger.ms", "50");
            put("batch.size", "1000000");
            put("compression.type", "lz4");
        }});
        var producer = new KafkaProducer<>(client, new StringSerializer(), new StringSerializer());
        return DebeziumEngine.create(Json.class).using(properties).using(DebeziumPeer::failed)
            .notifying((List<ChangeEvent<String, String>> events,
                        DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer) -> {
                for (var event : events) {
                    producer.send(new ProducerRecord<>("bench", 0, event.key(), event.value()));
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
                producer.flush();
                count(events.size(), wanted);
            }).build();
    }

    static void count(int size, long wanted) {
        double now = System.currentTimeMillis() / 1e3;
        first = records == 0 ? now : first;
        records += size;
        if (records >= wanted) {
            System.out.printf(java.util.Locale.ROOT, "{\"records\":%d,\"first\":%f,\"last\":%f}%n", records, first, now);
            System.out.flush();
            Runtime.getRuntime().halt(0);
        }
    }

    static void failed(boolean success, String message, Throwable error) {
        System.out.println(message + ", " + records + " records");
        if (error != null) {
            error.printStackTrace();
        }
        Runtime.getRuntime().halt(1);
    }
}
