import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValueJsonConverter;

/**
 * Has Kafka encode records of `__transaction_state`.
 *
 * Each line of its input is a record as JSON. It answers with the hex of key and value.
 */
public final class TransactionRecords {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode node = mapper.readTree(line);
            short version = (short) node.get("version").asInt();
            byte[] key = TransactionLog.keyToBytes(node.get("id").asText());
            JsonNode value = node.get("value");
            System.out.println(hex(key) + " " + (value.isNull() ? "null" : hex(MessageUtil.toVersionPrefixedBytes(
                version, TransactionLogValueJsonConverter.read(value, version)))));
        }
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
