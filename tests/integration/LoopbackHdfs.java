import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;

/** Two NameNodes, of which the first is active, and a DataNode on 127.0.0.1; each line of the input is a command. */
public class LoopbackHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.setInt("dfs.replication", 1);
    settings.setLong("dfs.blocksize", 1 << 20);
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(arguments[0]))
        .nnTopology(MiniDFSNNTopology.simpleHATopology())
        .numDataNodes(1)
        .build();
    cluster.waitActive();
    cluster.transitionToActive(0);
    System.out.printf("ready %d %d%n", cluster.getNameNodePort(0), cluster.getNameNodePort(1));
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
        default -> throw new IllegalArgumentException(line);
      }
      System.out.println("done " + line);
    }
    cluster.shutdown();
  }
}
