import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.api.common.restartstrategy.RestartStrategies;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.RowTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.source.RichSourceFunction;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/**
 * Runs the jobs of a file. A job is a line "#streaming" or "#batch", a line of SQL that creates the table t, one that
 * inserts into it from s, and the rows of s: a kind and the columns a to d, as text between bars, with \N for null. A line
 * "---" waits until the rows before it are in a commit.
 */
public class FlinkWriter {
  private static final String[] COLUMNS = {"a", "b", "c", "d"};

  public static void main(String[] files) throws Exception {
    for (String file : files) {
      List<String> job = new ArrayList<>();
      for (String line : Files.readAllLines(Path.of(file))) {
        if (line.startsWith("#") && !job.isEmpty()) {
          run(job);
          job.clear();
        }
        job.add(line);
      }
      run(job);
    }
    System.exit(0);
  }

  private static void run(List<String> job) throws Exception {
    boolean streaming = job.get(0).equals("#streaming");
    Configuration settings = new Configuration();
    settings.setBoolean("execution.checkpointing.checkpoints-after-tasks-finish.enabled", true);
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
    env.setRuntimeMode(streaming ? RuntimeExecutionMode.STREAMING : RuntimeExecutionMode.BATCH);
    env.setRestartStrategy(RestartStrategies.noRestart());
    if (streaming) {
      env.enableCheckpointing(300);
      env.getCheckpointConfig().setMinPauseBetweenCheckpoints(100);
    }
    EnvironmentSettings.Builder mode = EnvironmentSettings.newInstance();
    StreamTableEnvironment tables =
        StreamTableEnvironment.create(env, (streaming ? mode.inStreamingMode() : mode.inBatchMode()).build());
    tables.getConfig().set("table.exec.sink.upsert-materialize", "NONE");
    tables.getConfig().set("table.local-time-zone", "UTC");
    List<List<Row>> batches = new ArrayList<>(List.of(new ArrayList<>()));
    for (String line : job.subList(3, job.size())) {
      if (line.equals("---")) {
        batches.add(new ArrayList<>());
      } else {
        batches.get(batches.size() - 1).add(row(line));
      }
    }
    TypeInformation<?>[] types = new TypeInformation<?>[COLUMNS.length];
    Arrays.fill(types, Types.STRING);
    RowTypeInfo rowType = new RowTypeInfo(types, COLUMNS);
    if (streaming) {
      Schema.Builder schema = Schema.newBuilder();
      for (String column : COLUMNS) {
        schema.column(column, DataTypes.STRING());
      }
      tables.createTemporaryView(
          "s",
          tables.fromChangelogStream(
              env.addSource(new Batches(batches)).returns(rowType).setParallelism(1), schema.build(), ChangelogMode.all()));
    } else {
      tables.createTemporaryView("s", tables.fromDataStream(env.fromCollection(batches.get(0), rowType)));
    }
    tables.executeSql(job.get(1));
    tables.executeSql(job.get(2)).await();
  }

  private static Row row(String line) {
    String[] parts = line.split("\\|", -1);
    Row row = new Row(kind(parts[0]), COLUMNS.length);
    for (int i = 0; i < COLUMNS.length; i++) {
      row.setField(i, parts[i + 1].equals("\\N") ? null : parts[i + 1]);
    }
    return row;
  }

  private static RowKind kind(String text) {
    for (RowKind kind : RowKind.values()) {
      if (kind.shortString().equals(text)) {
        return kind;
      }
    }
    throw new IllegalArgumentException(text);
  }

  /** Emits batches of rows, each after the checkpoints that commit the one before. */
  public static class Batches extends RichSourceFunction<Row> implements CheckpointListener {
    private final List<List<Row>> batches;
    private volatile boolean runs = true;
    private volatile int checkpoints = 0;

    Batches(List<List<Row>> batches) {
      this.batches = batches;
    }

    @Override
    public void run(SourceContext<Row> context) throws Exception {
      for (List<Row> batch : batches) {
        synchronized (context.getCheckpointLock()) {
          batch.forEach(context::collect);
        }
        // Of the first checkpoint that completes, the rows may not be part; and the commit follows it.
        int last = checkpoints + 2;
        while (runs && checkpoints < last) {
          Thread.sleep(20);
        }
        Thread.sleep(700);
      }
    }

    @Override
    public void cancel() {
      runs = false;
    }

    @Override
    public void notifyCheckpointComplete(long id) {
      checkpoints++;
    }
  }
}
