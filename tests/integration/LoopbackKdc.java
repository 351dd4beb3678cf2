import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Arrays;
import org.apache.kerby.KOptions;
import org.apache.kerby.kerberos.kerb.client.KrbClient;
import org.apache.kerby.kerberos.kerb.client.KrbOption;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;
import org.apache.kerby.kerberos.kerb.type.KerberosTime;
import org.apache.kerby.kerberos.kerb.type.ticket.TgtTicket;

/** A KDC on 127.0.0.1; arguments are a folder and a realm, and each line of the input is a command. */
public class LoopbackKdc {
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
    SimpleKdcServer server = new SimpleKdcServer();
    int port;
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
      port = free.getLocalPort();
    }
    server.setWorkDir(new File(arguments[0]));
    server.setKdcRealm(arguments[1]);
    server.setKdcHost("127.0.0.1");
    server.setKdcTcpPort(port);
    server.setAllowUdp(false);
    server.init();
    server.start();
    System.out.printf("ready %d%n", port);
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] words = line.split(" ");
      switch (words[0]) {
        case "keytab" -> {
          for (String principal : Arrays.copyOfRange(words, 2, words.length)) {
            server.createPrincipals(principal);
            server.getKadmin().exportKeytab(new File(words[1]), principal);
          }
        }
        case "ticket" -> {
          KOptions options = new KOptions();
          options.add(KrbOption.CLIENT_PRINCIPAL, words[3]);
          options.add(KrbOption.USE_KEYTAB, true);
          options.add(KrbOption.KEYTAB_FILE, new File(words[2]));
          KrbClient client = server.getKrbClient();
          TgtTicket ticket = client.requestTgt(options);
          long end = System.currentTimeMillis() + 1000 * Long.parseLong(words[4]);
          ticket.getEncKdcRepPart().setEndTime(new KerberosTime(end));
          client.storeTicket(ticket, new File(words[1]));
        }
        default -> throw new IllegalArgumentException(line);
      }
      System.out.println("done " + line);
    }
    server.stop();
  }
}
