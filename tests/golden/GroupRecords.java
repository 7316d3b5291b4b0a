import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Has Kafka encode records of `__consumer_offsets`, and choose the partitions of groups.
 *
 * Each line of its input is a record as JSON, or the id of a group as a JSON string. It answers with the hex of key and
 * value, or with the hash of the id and its partition. Its argument is the number of partitions.
 */
public final class GroupRecords {
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[0]);
        ObjectMapper mapper = new ObjectMapper();
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode node = mapper.readTree(line);
            if (node.isTextual()) {
                int hash = node.asText().hashCode();
                System.out.println(hash + " " + Utils.abs(hash) % partitions);
            } else {
                CoordinatorRecord record = read(node);
                System.out.println(hex(serde.serializeKey(record)) + " " + hex(serde.serializeValue(record)));
            }
        }
    }

    private static CoordinatorRecord read(JsonNode node) {
        short type = (short) node.get("type").asInt();
        ApiMessage key = CoordinatorRecordJsonConverters.readRecordKeyFromJson(node.get("key"), type);
        if (node.get("value").isNull()) return CoordinatorRecord.tombstone(key);
        short version = (short) node.get("version").asInt();
        ApiMessage value = CoordinatorRecordJsonConverters.readRecordValueFromJson(node.get("value"), type, version);
        return CoordinatorRecord.record(key, new ApiMessageAndVersion(value, version));
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : HexFormat.of().formatHex(bytes);
    }
}
