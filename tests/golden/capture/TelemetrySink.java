import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/** Broker plug-in that takes the clients' metrics and forgets them: without one a broker hides APIs 71 and 72. */
@SuppressWarnings("removal")
public class TelemetrySink implements MetricsReporter, ClientTelemetry {
    public void init(List<KafkaMetric> metrics) {}

    public void metricChange(KafkaMetric metric) {}

    public void metricRemoval(KafkaMetric metric) {}

    public void close() {}

    public void configure(Map<String, ?> settings) {}

    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> {};
    }
}
