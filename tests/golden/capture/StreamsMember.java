import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * A Kafka Streams application that joins by the streams group protocol (KIP-1071) and is described while it runs.
 *
 * <p>java -cp 'CLASSES:JARS/*' StreamsMember BOOTSTRAP TOPIC STATE_DIR
 */
public class StreamsMember {
    public static void main(String[] args) throws Exception {
        Clients.create(args[0], args[1]);
        Clients.create(args[0], args[1] + "-copy");
        Clients.produce(args[0], args[1], "none", "all");
        Properties settings = Clients.settings(args[0], "golden-streams");
        settings.put("application.id", args[1] + "-streams");
        settings.put("group.protocol", "streams");
        settings.put("state.dir", args[2]);
        settings.put("default.key.serde", "org.apache.kafka.common.serialization.Serdes$ByteArraySerde");
        settings.put("default.value.serde", "org.apache.kafka.common.serialization.Serdes$ByteArraySerde");
        StreamsBuilder topology = new StreamsBuilder();
        topology.stream(args[1]).filter((key, value) -> key != null).repartition().to(args[1] + "-copy");
        try (KafkaStreams streams = new KafkaStreams(topology.build(), settings)) {
            streams.start();
            Thread.sleep(8000);
            try (Admin admin = Admin.create(Clients.settings(args[0], "golden-admin"))) {
                Clients.step("describe", () -> admin.describeStreamsGroups(List.of(args[1] + "-streams"))
                        .all().get(8, TimeUnit.SECONDS));
            }
            streams.close(Duration.ofSeconds(5));
        }
        System.exit(0);
    }
}
