import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** A Hive metastore on the port given, which no other machine reaches; Hive's own main class binds every address. */
public class LoopbackMetastore {
  public static void main(String[] arguments) throws Exception {
    HiveConf conf = new HiveConf();
    IHMSHandler handler =
        RetryingHMSHandler.getProxy(conf, new HiveMetaStore.HMSHandler("metastore", conf, false), false);
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
    System.out.println("ready");
    new TThreadPoolServer(new TThreadPoolServer.Args(socket).processor(new ThriftHiveMetastore.Processor<>(handler)))
        .serve();
  }
}
