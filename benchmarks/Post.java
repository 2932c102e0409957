import java.net.URI;
import java.net.http.*;

/** Posts each of some bodies to one address by the JDK's HttpClient, and prints the status and the body of each answer. */
public class Post {
    public static void main(String[] given) throws Exception {
        var client = HttpClient.newHttpClient();
        for (int index = 1; index < given.length; index++) {
            var body = HttpRequest.BodyPublishers.ofString(given[index]);
            var post = HttpRequest.newBuilder(URI.create(given[0])).POST(body).build();
            var answer = client.send(post, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body());
        }
    }
}
