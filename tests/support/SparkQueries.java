import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.TimeZone;
import org.apache.spark.sql.SparkSession;

/** Queries of Spark SQL, a line each, and their rows as an array of JSON, a line each; an error is a text. */
public class SparkQueries {
    public static void main(String[] settings) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        Locale.setDefault(Locale.ROOT);
        SparkSession.Builder builder = SparkSession.builder().master("local[1]").appName("queries");
        for (String setting : settings) {
            int at = setting.indexOf('=');
            builder.config(setting.substring(0, at), setting.substring(at + 1));
        }
        SparkSession spark = builder.getOrCreate();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(answer(spark, line));
        }
        spark.stop();
    }

    private static String answer(SparkSession spark, String query) {
        try {
            List<String> rows = new ArrayList<>(spark.sql(query).toJSON().collectAsList());
            return "[" + String.join(",", rows) + "]";
        } catch (Exception error) {
            return "\"" + String.valueOf(error).replaceAll("[\\s\"\\\\]+", " ") + "\"";
        }
    }
}
