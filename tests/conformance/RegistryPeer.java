import io.confluent.kafka.schemaregistry.CompatibilityChecker;
import io.confluent.kafka.schemaregistry.CompatibilityLevel;
import io.confluent.kafka.schemaregistry.ParsedSchema;
import io.confluent.kafka.schemaregistry.ParsedSchemaHolder;
import io.confluent.kafka.schemaregistry.SimpleParsedSchemaHolder;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Confluent's Java client and serializers against a registry: judge (levels, from stdin), write, read, calls.
 */
public class RegistryPeer {
  static final String SERIALIZER = "io.confluent.kafka.serializers.KafkaAvroSerializer";
  static final String DESERIALIZER = "io.confluent.kafka.serializers.KafkaAvroDeserializer";

  public static void main(String[] arguments) throws Exception {
    switch (arguments[0]) {
      case "judge" -> judge();
      case "write" -> write(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
      case "read" -> read(arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]));
      case "calls" -> calls(arguments[1]);
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }

  /** Lines of a level, a schema and the versions before it, with tabs between: is it compatible? */
  static void judge() throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      String[] parts = line.split("\t");
      String verdict;
      try {
        List<ParsedSchemaHolder> before = new ArrayList<>();
        for (int index = 2; index < parts.length; index++) {
          before.add(new SimpleParsedSchemaHolder(new AvroSchema(parts[index])));
        }
        var checker = CompatibilityChecker.checker(CompatibilityLevel.forName(parts[0]));
        verdict = checker.isCompatibleWithHolders(new AvroSchema(parts[1]), before).isEmpty() ? "true" : "false";
      } catch (RuntimeException problem) {
        verdict = "no schema: " + problem.getMessage();
      }
      System.out.println(verdict.replace('\n', ' '));
    }
  }

  static void write(String servers, String url, String topic, String schema, String registers) throws Exception {
    Map<String, Object> settings = Map.of(
        "bootstrap.servers", servers, "schema.registry.url", url, "auto.register.schemas", registers,
        "use.latest.version", registers.equals("false") ? "true" : "false",
        "key.serializer", SERIALIZER, "value.serializer", SERIALIZER);
    Schema parsed = new Schema.Parser().parse(schema);
    try (var producer = new KafkaProducer<Object, Object>(settings)) {
      for (int index = 0; index < 3; index++) {
        var builder = new GenericRecordBuilder(parsed).set("name", "n" + index);
        for (var field : parsed.getFields()) {
          if (field.schema().getType() == Schema.Type.RECORD) {
            builder.set(field, new GenericRecordBuilder(field.schema()).set("city", "c" + index).build());
          }
        }
        producer.send(new ProducerRecord<>(topic, "k" + index, builder.build())).get();
      }
    }
    System.out.println("written");
  }

  static void read(String servers, String url, String topic, int count) {
    Map<String, Object> settings = Map.of(
        "bootstrap.servers", servers, "schema.registry.url", url, "group.id", "java-" + topic,
        "auto.offset.reset", "earliest", "key.deserializer", DESERIALIZER, "value.deserializer", DESERIALIZER);
    try (var consumer = new KafkaConsumer<Object, Object>(settings)) {
      consumer.subscribe(List.of(topic));
      for (int read = 0; read < count; ) {
        for (ConsumerRecord<Object, Object> record : consumer.poll(Duration.ofSeconds(1))) {
          System.out.println(record.key() + " " + record.value());
          read++;
        }
      }
    }
  }

  static void calls(String url) throws Exception {
    var client = new CachedSchemaRegistryClient(url, 100);
    String one = "{\"type\":\"record\",\"name\":\"R\",\"fields\":[{\"name\":\"a\",\"type\":\"int\"}]}";
    String two = one.replace("]}", ",{\"name\":\"b\",\"type\":\"int\",\"default\":0}]}");
    ParsedSchema first = new AvroSchema(one);
    ParsedSchema second = new AvroSchema(two);
    ParsedSchema bad = new AvroSchema(one.replace("int", "string"));
    int firstId = client.register("calls", first);
    int secondId = client.register("calls", second);
    say("again", () -> client.register("calls", first) == firstId);
    say("by id", () -> client.getSchemaById(secondId).canonicalString().equals(second.canonicalString()));
    say("id", () -> client.getId("calls", second) == secondId);
    say("version", () -> client.getVersion("calls", second));
    say("versions", () -> client.getAllVersions("calls"));
    say("latest", () -> client.getLatestSchemaMetadata("calls").getVersion());
    say("metadata", () -> client.getSchemaMetadata("calls", 1).getId() == firstId);
    say("places", () -> client.getAllVersionsById(firstId).toString());
    say("subjects", () -> new TreeSet<>(client.getAllSubjectsByPrefix("cal")));
    say("compatible", () -> client.testCompatibility("calls", second));
    say("incompatible", () -> client.testCompatibility("calls", bad));
    say("verbose", () -> client.testCompatibilityVerbose("calls", bad).get(0).contains("TYPE_MISMATCH"));
    say("register incompatible", () -> client.register("calls", bad));
    say("set level", () -> client.updateCompatibility("calls", "FULL"));
    say("level", () -> client.getCompatibility("calls"));
    say("bad level", () -> client.updateCompatibility("calls", "SOMETIMES"));
    client.deleteCompatibility("calls");
    say("level of all", () -> client.getCompatibility(null));
    say("no level", () -> client.getCompatibility("nowhere"));
    say("mode", () -> client.getMode());
    say("set mode", () -> client.setMode("READONLY", "calls"));
    say("read only", () -> client.register("calls", new AvroSchema(two.replace("\"b\"", "\"c\""))));
    say("write again", () -> client.setMode("READWRITE", "calls"));
    say("import with schemas", () -> client.setMode("IMPORT", "calls"));
    say("unknown id", () -> client.getSchemaById(987654));
    say("unknown subject", () -> client.getLatestSchemaMetadata("nowhere"));
    say("unknown version", () -> client.getSchemaMetadata("calls", 77));
    say("hard first", () -> client.deleteSchemaVersion(Map.of(), "calls", "1", true));
    say("soft", () -> client.deleteSchemaVersion("calls", "1"));
    say("soft again", () -> client.deleteSchemaVersion("calls", "1"));
    say("hard", () -> client.deleteSchemaVersion(Map.of(), "calls", "1", true));
    say("subject soft", () -> client.deleteSubject("calls"));
    say("subject soft again", () -> client.deleteSubject("calls"));
    say("subject hard", () -> client.deleteSubject(Map.of(), "calls", true));
    say("subject gone", () -> client.deleteSubject("calls"));
    client.close();
  }

  static void say(String step, Callable<Object> call) throws Exception {
    try {
      System.out.println(step + ": " + call.call());
    } catch (RestClientException refused) {
      System.out.println(step + ": " + refused.getStatus() + " " + refused.getErrorCode());
    }
  }
}
