import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.security.token.delegation.DelegationTokenIdentifier;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.metrics2.AbstractMetric;
import org.apache.hadoop.metrics2.MetricsRecord;
import org.apache.hadoop.metrics2.impl.MetricsCollectorImpl;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.token.Token;

/**
 * Two NameNodes, of which the first is active, and a DataNode on 127.0.0.1; each line of the input is a command. The
 * first argument is a folder, the others are properties.
 */
public class LoopbackHdfs {
  public static void main(String[] arguments) {
    try {
      run(arguments);
    } catch (Throwable error) {
      error.printStackTrace();
      // Threads of servers would go on.
      Runtime.getRuntime().halt(1);
    }
  }

  private static void run(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.setInt("dfs.replication", 1);
    settings.setLong("dfs.blocksize", 1 << 20);
    for (int i = 1; i < arguments.length; i++) {
      String[] property = arguments[i].split("=", 2);
      settings.set(property[0], property[1]);
    }
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(arguments[0]))
        .nnTopology(MiniDFSNNTopology.simpleHATopology())
        .numDataNodes(1)
        .build();
    cluster.waitActive();
    cluster.transitionToActive(0);
    System.out.printf(
        "ready %d %d %d%n",
        cluster.getNameNodePort(0),
        cluster.getNameNodePort(1),
        URI.create(cluster.getHttpUri(0)).getPort());
    MiniDFSCluster.DataNodeProperties stopped = null;
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] words = line.split(" ");
      switch (words[0]) {
        case "activate" -> cluster.transitionToActive(Integer.parseInt(words[1]));
        case "deactivate" -> cluster.transitionToStandby(Integer.parseInt(words[1]));
        case "stop-name-node" -> cluster.shutdownNameNode(Integer.parseInt(words[1]));
        case "start-name-node" -> cluster.restartNameNode(Integer.parseInt(words[1]), false);
        case "stop-data-node" -> stopped = cluster.stopDataNode(0);
        case "start-data-node" -> cluster.restartDataNode(stopped, true);
        case "metrics" -> {
          try (PrintStream file = new PrintStream(words[1])) {
            print("RpcDetailedActivityForPort" + cluster.getNameNodePort(0), file);
            print(cluster.getDataNodes().get(0).getMetrics().name(), file);
          }
        }
        case "token" -> {
          Token<DelegationTokenIdentifier> token =
              cluster.getNameNodeRpc(0).getDelegationToken(new Text("nobody"));
          token.setService(new Text("ha-hdfs:" + words[2]));
          Credentials credentials = new Credentials();
          credentials.addToken(token.getService(), token);
          credentials.writeTokenStorageFile(new Path("file:" + words[1]), settings);
        }
        default -> throw new IllegalArgumentException(line);
      }
      System.out.println("done " + line);
    }
    cluster.shutdown();
  }

  /** Write the numbers of a source, a line each. */
  private static void print(String source, PrintStream file) {
    MetricsCollectorImpl collector = new MetricsCollectorImpl();
    DefaultMetricsSystem.instance().getSource(source).getMetrics(collector, true);
    for (MetricsRecord entry : collector.getRecords()) {
      for (AbstractMetric metric : entry.metrics()) {
        file.println(metric.name() + " " + metric.value());
      }
    }
  }
}
