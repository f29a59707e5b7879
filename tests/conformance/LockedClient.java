import java.io.FileReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A user writes its own topic and reads it in a group, then tries a topic of others: FILE TOPIC OTHERS GROUP COUNT. */
public class LockedClient {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            settings.load(file);
        }
        settings.put("group.id", arguments[3]);
        settings.put("auto.offset.reset", "earliest");
        int count = Integer.parseInt(arguments[4]);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(arguments[1], "value " + number)).get();
            }
            producer.send(new ProducerRecord<>(arguments[2], "x")).get();
        } catch (ExecutionException refused) {
            System.out.println("write: " + refused.getCause().getClass().getSimpleName());
        }
        read(settings, arguments[1], count);
        read(settings, arguments[2], 1);
    }

    private static void read(Properties settings, String topic, int count) {
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (int found = 0; found < count; ) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println("read: " + each.value());
                    found++;
                }
            }
        } catch (AuthorizationException refused) {
            System.out.println("read: " + refused.getClass().getSimpleName());
        }
    }
}
