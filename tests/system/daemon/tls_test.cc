#include <openssl/ssl.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "program.h"

using namespace holdfast::testing;
using namespace std::chrono_literals;

namespace {

/// A certificate authority, and what it has signed for 127.0.0.1.
struct Authority {
  TempDir dir;

  Authority() {
    make(R"(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
              -subj /CN=authority -keyout ca.key -out ca.pem)");
    issue("one");
  }

  void make(const std::string& script) const {
    const Result result = shell(script, {.cwd = dir.path()});
    INFO(result.err);
    REQUIRE(result.code == 0);
  }

  void issue(const std::string& name) const {
    make("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name +
         " -keyout " + name + ".key -out " + name + R"(.csr
         printf 'subjectAltName=IP:127.0.0.1\n' >ext
         openssl x509 -req -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial -extfile ext -in )" +
         name + ".csr -out " + name + ".pem");
  }

  Words options(const std::string& certificate, const std::string& key) const {
    return {"--tls-cert", dir / certificate, "--tls-key", dir / key};
  }
};

/// Checks the server's certificate as any decent client.
class TlsClient : public RawClient {
 public:
  TlsClient(const std::string& address, const Authority& authority)
      : RawClient("http" + address.substr(5)) {
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    (void)SSL_CTX_load_verify_locations(context, (authority.dir / "ca.pem").c_str(), nullptr);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE);
    ssl_ = SSL_new(context);
    SSL_CTX_free(context);
    (void)X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_), "127.0.0.1");
    (void)SSL_set_fd(ssl_, fd());
    is_connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() override { SSL_free(ssl_); }

  bool is_connected() const { return is_connected_; }
  std::string name() const {
    X509* theirs = SSL_get1_peer_certificate(ssl_);
    char name[64] = "";
    if (theirs != nullptr) {
      (void)X509_NAME_get_text_by_NID(X509_get_subject_name(theirs), NID_commonName, name, 64);
    }
    X509_free(theirs);
    return name;
  }

 private:
  long read_some(char* into, std::size_t size) override {
    const int got = SSL_read(ssl_, into, static_cast<int>(size));
    return got > 0 ? got : SSL_get_error(ssl_, got) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
  }
  long write_some(const char* from, std::size_t size) override {
    return SSL_write(ssl_, from, static_cast<int>(size));
  }

  SSL* ssl_ = nullptr;
  bool is_connected_ = false;
};

}  // namespace

TEST_CASE("with a certificate all of it is https", "[daemon][tls]") {
  const Authority authority;
  Words words = authority.options("one.pem", "one.key");
  words.insert(words.end(),
               {"--listen", "127.0.0.1:0", "--listen", "unix:" + authority.dir / "socket"});
  const Program server(words);
  CHECK(server.address().starts_with("https://127.0.0.1:"));
  TlsClient client(server.address(), authority);
  REQUIRE(client.is_connected());
  const auto made = client.ask(request_text("POST", "/v1/claims/", claim_text("gpu")));
  REQUIRE(made);
  CHECK(made->status == 201);
  CHECK(made->header("location") == "https://test/v1/claims/1/");
  CHECK(Reply{*made}.json()["url"] == "https://test/v1/claims/1/");
  // One byte more than a record.
  const Json large{{"resource", "large"}, {"ttl", 60}, {"user_data", std::string(1 << 20, 'x')}};
  const auto huge = client.ask(request_text("POST", "/v1/claims/", large.dump()));
  REQUIRE(huge);
  CHECK(huge->status == 201);
  CHECK(Reply{*huge}.json()["user_data"] == large["user_data"]);
  // A unix socket needs none, and its URLs say so.
  const Reply plain = ask(server.address(1), "POST", "/v1/claims/", claim_text("gpu"));
  CHECK(plain.status == 202);
  CHECK(plain.header("location") == "http://test/v1/claims/3/");
}

TEST_CASE("curl and openssl find nothing wrong with it", "[daemon][tls]") {
  const Authority authority;
  const Program server(authority.options("one.pem", "one.key"));
  const std::string host = server.address().substr(8);
  const std::string from_there = "cd " + authority.dir.path() + " && ";
  const Result seen = shell(from_there + "openssl s_client -brief -CAfile ca.pem -connect " + host +
                            " -verify_return_error </dev/null 2>&1");
  INFO(seen.out);
  CHECK(seen.code == 0);
  CHECK(seen.out.find("Verification: OK") != std::string::npos);
  CHECK(shell("openssl s_client -connect " + host + " -tls1_1 </dev/null 2>&1").code != 0);
  if (!has_program("curl")) return;
  const Result got =
      shell(from_there + "curl -sS -m 10 --cacert ca.pem https://" + host + "/healthz");
  INFO(got.err);
  CHECK(got.out == R"({"status": "ok"})");
}

TEST_CASE("a new certificate is taken over, and nobody is dropped for it", "[daemon][tls]") {
  const Authority authority;
  const auto put = [&](const std::string& certificate, const std::string& key) {
    authority.make("cp " + certificate + ".pem live.pem && cp " + key + ".key live.key");
  };
  put("one", "one");
  authority.issue("two");
  const Program server(authority.options("live.pem", "live.key"));
  TlsClient old(server.address(), authority);
  CHECK(old.name() == "one");
  TlsClient parked(server.address(), authority);
  (void)old.ask(request_text("POST", "/v1/claims/", claim_text("gpu")));
  parked.send(request_text("POST", "/v1/claims/", claim_text("gpu"), "Prefer: wait=60\r\n"));

  put("two", "one");
  server.signal(SIGHUP);
  CHECK(server.has_complained("key values mismatch"));
  CHECK(TlsClient(server.address(), authority).name() == "one");

  put("two", "two");
  server.signal(SIGHUP);
  CHECK(eventually([&] { return TlsClient(server.address(), authority).name() == "two"; }));
  CHECK(old.ask(request_text("PATCH", "/v1/claims/1/", R"({"status": "released"})"))->status ==
        204);
  const auto served = parked.read_reply();
  REQUIRE(served);
  CHECK(served->status == 201);
}

TEST_CASE("what cannot serve TLS does not start, and says why", "[daemon][tls]") {
  const Authority authority;
  authority.issue("two");
  authority.make("echo nonsense >junk; : >empty; cat one.key one.pem >both");
  struct Row {
    const char *certificate, *key, *named, *why;
  };
  const Row row = GENERATE(Row{"one.pem", "two.key", "two.key", "key values mismatch"},
                           Row{"none", "one.key", "none", "No such file or directory"},
                           Row{"one.pem", "none", "none", "No such file or directory"},
                           Row{"junk", "one.key", "junk", "no start line"},
                           Row{"empty", "one.key", "empty", "no start line"},
                           Row{"one.pem", "one.pem", "one.pem", ""});
  Words words{"holdfastd", "--listen", "127.0.0.1:0", "--store", "memory:"};
  const Words tls = authority.options(row.certificate, row.key);
  words.insert(words.end(), tls.begin(), tls.end());
  const Result result = run(words);
  INFO(result.err);
  CHECK(result.code == 1);
  CHECK(result.out.empty());
  CHECK(result.err.find(authority.dir / row.named + ": ") != std::string::npos);
  CHECK(result.err.find(row.why) != std::string::npos);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
}

TEST_CASE("one of the two files alone is a mistake", "[daemon][tls]") {
  for (const char* option : {"--tls-cert", "--tls-key"}) {
    const Result result = run({"holdfastd", "--store", "memory:", option, "x"});
    CHECK(result.code == 10);
    CHECK(result.err.find("go together") != std::string::npos);
  }
}

TEST_CASE("who speaks no TLS is let go, and who dawdles keeps nobody waiting", "[daemon][tls]") {
  const Authority authority;
  Words words = authority.options("one.pem", "one.key");
  words.insert(words.end(), {"--header-timeout", "1", "--listen", "127.0.0.1:0"});
  const Program server(words);
  const std::string plain = "http" + server.address().substr(5);
  RawClient clear(plain);
  clear.send(request_text("GET", "/healthz"));
  const auto answer = clear.read_to_end(10s);
  REQUIRE(answer);
  CHECK(answer->find("HTTP/1") == std::string::npos);
  CHECK(answer->find("status") == std::string::npos);

  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<RawClient>(plain));
    // The head of a ClientHello that does not come.
    slow.back()->send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", i % 12));
  }
  const auto begin = std::chrono::steady_clock::now();
  TlsClient client(server.address(), authority);
  REQUIRE(client.is_connected());
  CHECK(client.ask(request_text("GET", "/healthz"))->status == 200);
  CHECK(std::chrono::steady_clock::now() - begin < 1s);
  for (const auto& each : slow) CHECK(each->read_to_end(20s));
}
