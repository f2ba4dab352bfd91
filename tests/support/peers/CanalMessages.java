// Canal's parser of the log, and its messages as they go to Kafka with `canal.mq.flatMessage`: a line for each, until it is
// ended. Arguments: port, user, password, database, tables (a regular expression), file and position to begin at.

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import com.alibaba.otter.canal.connector.core.producer.MQMessageUtils;
import com.alibaba.otter.canal.connector.core.producer.MQMessageUtils.EntryRowData;
import com.alibaba.otter.canal.filter.aviater.AviaterRegexFilter;
import com.alibaba.otter.canal.parse.inbound.mysql.MysqlEventParser;
import com.alibaba.otter.canal.parse.index.AbstractLogPositionManager;
import com.alibaba.otter.canal.parse.support.AuthenticationInfo;
import com.alibaba.otter.canal.protocol.CanalEntry.Entry;
import com.alibaba.otter.canal.protocol.CanalEntry.EntryType;
import com.alibaba.otter.canal.protocol.CanalEntry.RowChange;
import com.alibaba.otter.canal.protocol.position.EntryPosition;
import com.alibaba.otter.canal.protocol.position.LogPosition;
import com.alibaba.otter.canal.sink.AbstractCanalEventSink;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;

public class CanalMessages {
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        MysqlEventParser parser = new MysqlEventParser();
        parser.setDestination("peer");
        parser.setConnectionCharset("UTF-8");
        parser.setSlaveId(4713);
        parser.setDetectingEnable(false);
        parser.setEnableTsdb(false);
        parser.setParallel(false);
        parser.setEventFilter(new AviaterRegexFilter(args[4]));
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]));
        parser.setMasterInfo(new AuthenticationInfo(address, args[1], args[2], args[3]));
        parser.setMasterPosition(new EntryPosition(args[5], Long.parseLong(args[6])));
        parser.setLogPositionManager(new AbstractLogPositionManager() {
            @Override
            public LogPosition getLatestIndexBy(String destination) {
                return null;
            }

            @Override
            public void persistLogPosition(String destination, LogPosition position) {}
        });
        parser.setEventSink(new Printing());
        parser.start();
        Thread.currentThread().join();
    }

    static class Printing extends AbstractCanalEventSink<List<Entry>> {
        @Override
        public boolean sink(List<Entry> entries, InetSocketAddress from, String destination) {
            for (Entry entry : entries) {
                if (entry.getEntryType() == EntryType.ROWDATA) {
                    EntryRowData data = new EntryRowData();
                    data.entry = entry;
                    try {
                        data.rowChange = RowChange.parseFrom(entry.getStoreValue());
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                    MQMessageUtils.messageConverter(new EntryRowData[] {data}, 1)
                        .forEach(message -> OUT.println(JSON.toJSONString(message, JSONWriter.Feature.WriteNulls)));
                }
            }
            return true;
        }

        @Override
        public void interrupt() {}
    }
}
