import java.net.URLEncoder;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.client.HoodieJavaWriteClient;
import org.apache.hudi.client.WriteStatus;
import org.apache.hudi.client.common.HoodieJavaEngineContext;
import org.apache.hudi.common.model.DefaultHoodieRecordPayload;
import org.apache.hudi.common.model.HoodieAvroRecord;
import org.apache.hudi.common.model.HoodieDeltaWriteStat;
import org.apache.hudi.common.model.HoodieKey;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.model.HoodieRecordLocation;
import org.apache.hudi.common.model.WriteOperationType;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.config.HoodieWriteConfig;
import org.apache.hudi.hadoop.fs.HadoopFSUtils;
import org.apache.hudi.storage.StorageConfiguration;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Carries out a list of steps, given as JSON, by Hudi's Java client: what is written, committed, left and rolled back. */
public final class JavaClientWriter {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final StorageConfiguration<?> conf = HadoopFSUtils.getStorageConf(new Configuration());
  private final Map<String, HoodieJavaWriteClient> clients = new HashMap<>();
  private final Map<String, String> instants = new HashMap<>();
  private final Map<String, String> groups = new HashMap<>();
  private final String path;
  private final JsonNode job;

  private JavaClientWriter(JsonNode job) {
    this.job = job;
    this.path = job.get("path").asText();
  }

  public static void main(String[] args) throws Exception {
    for (String file : args) {
      new JavaClientWriter(JSON.readTree(Files.readAllBytes(Paths.get(file)))).run();
    }
    System.exit(0);
  }

  private void run() throws Exception {
    Properties properties = properties(job.get("table"));
    HoodieTableMetaClient.newTableBuilder().fromProperties(properties).initTable(conf, path);
    for (JsonNode step : job.get("steps")) {
      String name = step.get("as").asText();
      switch (step.get("do").asText()) {
        case "upsert":
          upsert(name, step);
          break;
        case "rollback":
          client(step).rollback(instants.get(name));
          break;
        case "compact":
          Option<String> planned = client(step).scheduleCompaction(Option.empty());
          client(step).compact(planned.get(), true);
          break;
        case "register":
          register(name, step);
          break;
        default:
          throw new IllegalArgumentException(step.toString());
      }
    }
    Files.write(Paths.get(path + ".instants.json"), JSON.writeValueAsBytes(instants));
  }

  private static Properties properties(JsonNode node) {
    Properties properties = new Properties();
    node.fields().forEachRemaining(entry -> properties.setProperty(entry.getKey(), entry.getValue().asText()));
    return properties;
  }

  private HoodieWriteConfig config(JsonNode step) {
    JsonNode schema = step.has("schema") ? step.get("schema") : job.get("schema");
    Properties properties = properties(job.get("options"));
    if (step.has("options")) {
      properties.putAll(properties(step.get("options")));
    }
    return HoodieWriteConfig.newBuilder().withProperties(properties).withPath(path).withSchema(schema.toString()).build();
  }

  private HoodieJavaWriteClient client(JsonNode step) {
    return new HoodieJavaWriteClient(new HoodieJavaEngineContext(conf), config(step));
  }

  private void upsert(String name, JsonNode step) throws Exception {
    HoodieJavaWriteClient client = client(step);
    Schema schema = new Schema.Parser().parse((step.has("schema") ? step.get("schema") : job.get("schema")).toString());
    List<HoodieRecord> records = new ArrayList<>();
    for (JsonNode row : step.get("rows")) {
      GenericRecord record = new GenericData.Record(schema);
      for (Schema.Field field : schema.getFields()) {
        JsonNode value = row.get(field.name());
        record.put(field.name(), value == null || value.isNull() ? null
            : value.isTextual() ? value.asText() : value.isIntegralNumber() ? (Object) value.asLong() : value.asDouble());
      }
      HoodieKey key = new HoodieKey(row.get("id").asText(), row.has("part") ? row.get("part").asText() : "");
      records.add(new HoodieAvroRecord<>(key, new DefaultHoodieRecordPayload(record, row.get("ts").asLong())));
    }
    if (step.has("into")) {
      String before = step.get("into").asText();
      for (HoodieRecord record : records) {
        record.unseal();
        record.setCurrentLocation(new HoodieRecordLocation(instants.get(before), groups.get(before)));
        record.seal();
      }
    }
    String instant = client.startCommit();
    instants.put(name, instant);
    List<WriteStatus> statuses;
    if (step.has("into")) {
      client.transitionInflight(instant);
      statuses = (List<WriteStatus>) client.upsertPreppedRecords(records, instant);
    } else {
      statuses = (List<WriteStatus>) client.upsert(records, instant);
    }
    groups.put(name, statuses.get(0).getFileId());
    for (WriteStatus status : statuses) {
      if (status.hasErrors()) {
        throw new IllegalStateException(status.toString() + status.getErrors());
      }
    }
    if (!step.has("pending")) {
      client.commit(instant, statuses);
      client.close();
    }
  }

  private void register(String name, JsonNode step) throws Exception {
    HoodieJavaWriteClient client = client(step);
    String instant = step.get("instant").asText(), action = "replacecommit";
    instants.put(name, instant);
    List<WriteStatus> statuses = new ArrayList<>();
    for (JsonNode file : step.get("files")) {
      String partition = file.get("partition").asText(), below = file.get("below").asText(), base = file.get("name").asText();
      HoodieDeltaWriteStat stat = new HoodieDeltaWriteStat();
      String folders = below.isEmpty() ? "" : "_fg%3D" + URLEncoder.encode(below, "UTF-8");
      String marked = base + "_" + instant + folders + "_hudiext";
      stat.setFileId(below.isEmpty() ? base : below + "/" + base);
      stat.setPartitionPath(partition);
      stat.setPath((partition.isEmpty() ? "" : partition + "/") + (below.isEmpty() ? "" : below + "/") + marked);
      long size = Files.size(Paths.get(path, partition, below, base));
      stat.setNumWrites(file.get("rows").asLong());
      stat.setNumInserts(file.get("rows").asLong());
      stat.setTotalWriteBytes(size);
      stat.setFileSizeInBytes(size);
      WriteStatus status = new WriteStatus(true, 0.0);
      status.setFileId(stat.getFileId());
      status.setPartitionPath(partition);
      status.setStat(stat);
      statuses.add(status);
    }
    Map<String, List<String>> replaced = new HashMap<>();
    for (JsonNode file : step.get("removes")) {
      replaced.computeIfAbsent(file.get("partition").asText(), ignored -> new ArrayList<>()).add(file.get("id").asText());
    }
    HoodieTableMetaClient meta = HoodieTableMetaClient.builder().setConf(conf).setBasePath(path).build();
    meta.getActiveTimeline().createRequestedCommitWithReplaceMetadata(instant, action);
    HoodieInstant requested = meta.getInstantGenerator().createNewInstant(HoodieInstant.State.REQUESTED, action, instant);
    meta.getActiveTimeline().transitionReplaceRequestedToInflight(requested, Option.empty());
    client.setOperationType(WriteOperationType.UNKNOWN);
    client.commit(instant, statuses, Option.empty(), action, replaced);
    client.close();
  }
}
