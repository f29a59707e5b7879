import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer that ends transactions in quick succession: each abort follows the commit before it at once. */
public class QuickEnds {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int rounds = Integer.parseInt(arguments[2]);
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0], "transactional.id", "quick-ends", "linger.ms", 0);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int round = 0; round < rounds; round++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, "kept " + round)).get();
                producer.commitTransaction();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, "dropped " + round));
                producer.abortTransaction();
            }
        }
        System.out.println("rounds=" + rounds);
    }
}
