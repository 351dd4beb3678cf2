import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import javax.security.sasl.Sasl;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.thrift.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.shims.ShimLoader;
import org.apache.thrift.TProcessor;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TSSLTransportFactory;
import org.apache.thrift.transport.TServerSocket;

/**
 * A Hive metastore that no other machine reaches; Hive's own main class binds every address. Each argument is a port, on
 * which there is a login if it is followed by protections of SASL, and TLS if these are followed by a keystore:
 * PORT[:PROTECTION[:KEYSTORE]].
 */
public class LoopbackMetastore {
  public static void main(String[] arguments) throws Exception {
    HiveConf conf = new HiveConf();
    IHMSHandler handler =
        RetryingHMSHandler.getProxy(conf, new HiveMetaStore.HMSHandler("metastore", conf, false), false);
    TProcessor processor = new ThriftHiveMetastore.Processor<>(handler);
    HadoopThriftAuthBridge.Server login = null;
    for (String argument : arguments) {
      String[] words = argument.split(":");
      InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
      TThreadPoolServer.Args options = new TThreadPoolServer.Args(socket(address, words));
      if (words.length > 1) {
        if (login == null) {
          login = ShimLoader.getHadoopThriftAuthBridge().createServer(
              conf.getVar(HiveConf.ConfVars.METASTORE_KERBEROS_KEYTAB_FILE),
              conf.getVar(HiveConf.ConfVars.METASTORE_KERBEROS_PRINCIPAL));
        }
        options.transportFactory(login.createTransportFactory(Map.of(Sasl.QOP, words[1], Sasl.SERVER_AUTH, "true")));
        options.processor(login.wrapProcessor(processor));
      } else {
        options.processor(processor);
      }
      new Thread(new TThreadPoolServer(options)::serve).start();
    }
    System.out.println("ready");
  }

  private static TServerSocket socket(InetSocketAddress address, String[] words) throws Exception {
    if (words.length < 3) {
      return new TServerSocket(address);
    }
    TSSLTransportFactory.TSSLTransportParameters tls = new TSSLTransportFactory.TSSLTransportParameters();
    tls.setKeyStore(words[2], "password", null, "PKCS12");
    return TSSLTransportFactory.getServerSocket(address.getPort(), 0, InetAddress.getByName("127.0.0.1"), tls);
  }
}
