import java.io.PrintWriter;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.avro.Schema;
import org.apache.avro.generic.IndexedRecord;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.avro.HoodieAvroReaderContext;
import org.apache.hudi.client.common.HoodieJavaEngineContext;
import org.apache.hudi.common.config.HoodieMetadataConfig;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.model.FileSlice;
import org.apache.hudi.common.schema.HoodieSchema;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.TableSchemaResolver;
import org.apache.hudi.common.table.read.HoodieFileGroupReader;
import org.apache.hudi.common.table.view.FileSystemViewManager;
import org.apache.hudi.common.table.view.HoodieTableFileSystemView;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.ClosableIterator;
import org.apache.hudi.hadoop.fs.HadoopFSUtils;
import org.apache.hudi.storage.StorageConfiguration;
import com.fasterxml.jackson.databind.ObjectMapper;

/** Prints the rows of newest snapshots, a line of JSON each, as Hudi's file group reader gives them to its Java engine. */
public final class JavaClientReader {
  public static void main(String[] args) throws Exception {
    for (int i = 0; i + 1 < args.length; i += 2) {
      try (PrintWriter out = new PrintWriter(args[i + 1], "UTF-8")) {
        try {
          read(args[i], out);
        } catch (RuntimeException error) {
          out.println(new ObjectMapper().writeValueAsString(Collections.singletonMap("error", error.toString())));
        }
      }
    }
    System.exit(0);
  }

  private static void read(String path, PrintWriter out) throws Exception {
    StorageConfiguration<?> conf = HadoopFSUtils.getStorageConf(new Configuration());
    HoodieTableMetaClient meta = HoodieTableMetaClient.builder().setConf(conf).setBasePath(path).build();
    HoodieMetadataConfig metadata = HoodieMetadataConfig.newBuilder().enable(
        meta.getTableConfig().isMetadataTableAvailable()).build();
    HoodieJavaEngineContext context = new HoodieJavaEngineContext(conf);
    HoodieTableFileSystemView view = FileSystemViewManager.createInMemoryFileSystemViewWithTimeline(
        context, meta, metadata, meta.getCommitsAndCompactionTimeline().filterCompletedAndCompactionInstants());
    view.loadAllPartitions();
    HoodieSchema schema = new TableSchemaResolver(meta).getTableSchema(true);
    String last = meta.getCommitsTimeline().filterCompletedInstants().lastInstant().get().requestedTime();
    ObjectMapper json = new ObjectMapper();
    List<FileSlice> slices = view.getAllLatestFileSlicesBeforeOrOn(last).values().stream()
        .flatMap(stream -> stream).collect(Collectors.toList());
    for (FileSlice slice : slices) {
      HoodieAvroReaderContext reader = new HoodieAvroReaderContext(conf, meta.getTableConfig(), Option.empty(), Option.empty());
      HoodieFileGroupReader<IndexedRecord> group = HoodieFileGroupReader.<IndexedRecord>builder()
          .withReaderContext(reader).withHoodieTableMetaClient(meta).withLatestCommitTime(last)
          .withBaseFileOption(slice.getBaseFile()).withLogFiles(slice.getLogFiles())
          .withPartitionPath(slice.getPartitionPath()).withDataSchema(schema).withRequestedSchema(schema)
          .withProps(new TypedProperties()).build();
      try (ClosableIterator<IndexedRecord> rows = group.getClosableIterator()) {
        while (rows.hasNext()) {
          IndexedRecord row = rows.next();
          Map<String, Object> values = new LinkedHashMap<>();
          for (Schema.Field field : row.getSchema().getFields()) {
            Object value = row.get(field.pos());
            values.put(field.name(), value instanceof Number || value instanceof Boolean || value == null ? value : value.toString());
          }
          out.println(json.writeValueAsString(values));
        }
      }
    }
  }
}
