// Debezium's embedded engine: prints a line for each of its messages, {"topic": …, "key": …, "value": …}, until it is ended.
// Arguments are the connector's properties, `name=value`.

import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

public class DebeziumMessages {
    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Properties properties = new Properties();
        for (String arg : args) {
            String[] parts = arg.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(properties)
            .using((success, message, error) -> {
                if (error != null) {
                    error.printStackTrace();
                }
                Runtime.getRuntime().halt(success ? 0 : 1);
            })
            .notifying(event -> out.printf(
                "{\"topic\":\"%s\",\"key\":%s,\"value\":%s}%n", event.destination(), event.key(), event.value()
            )).build();
        engine.run();
    }
}
