#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "support/temp_dir.h"
#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

using holdfast::testing::TempDir;

/// A self-signed certificate and its key as two files.
struct Pair {
  Pair(const TempDir& dir, const std::string& name)
      : certificate(dir / (name + ".pem")), key(dir / (name + ".key")) {
    EVP_PKEY* pair = ::EVP_EC_gen("P-256");
    X509* made = ::X509_new();
    (void)::ASN1_INTEGER_set(::X509_get_serialNumber(made), 1);
    (void)::X509_gmtime_adj(::X509_getm_notBefore(made), -60);
    (void)::X509_gmtime_adj(::X509_getm_notAfter(made), 3600);
    (void)::X509_set_pubkey(made, pair);
    X509_NAME* subject = ::X509_get_subject_name(made);
    (void)::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                       reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1,
                                       0);
    (void)::X509_set_issuer_name(made, subject);
    (void)::X509_sign(made, pair, ::EVP_sha256());
    std::FILE* file = std::fopen(certificate.c_str(), "w");
    (void)::PEM_write_X509(file, made);
    (void)std::fclose(file);
    file = std::fopen(key.c_str(), "w");
    (void)::PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
    (void)std::fclose(file);
    ::X509_free(made);
    ::EVP_PKEY_free(pair);
  }

  std::string certificate;
  std::string key;
};

class TlsClient : public RawClient {
 public:
  explicit TlsClient(const std::string& url, int highest = 0) : RawClient(url) {
    SSL_CTX* context = ::SSL_CTX_new(::TLS_client_method());
    if (highest != 0) {
      (void)::SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
      (void)::SSL_CTX_set_max_proto_version(context, highest);
      (void)::SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0");
    }
    (void)::SSL_CTX_set_mode(context,
                             SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    ssl_ = ::SSL_new(context);
    ::SSL_CTX_free(context);
    (void)::SSL_set_fd(ssl_, fd());
    is_connected = ::SSL_connect(ssl_) == 1;
    ::ERR_clear_error();
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;
  ~TlsClient() override { ::SSL_free(ssl_); }

  std::string server_name() const {
    X509* theirs = ::SSL_get1_peer_certificate(ssl_);
    char text[100] = "";
    (void)::X509_NAME_get_text_by_NID(::X509_get_subject_name(theirs), NID_commonName, text,
                                      sizeof text);
    ::X509_free(theirs);
    return text;
  }
  std::string version() const { return ::SSL_get_version(ssl_); }

  bool is_connected = false;

 protected:
  // The socket blocks: these wait until there is something, which a test limit bounds.
  long read_some(char* into, std::size_t size) override {
    ::ERR_clear_error();
    const int got = ::SSL_read(ssl_, into, static_cast<int>(size));
    return got > 0 ? got : 0;
  }
  long write_some(const char* from, std::size_t size) override {
    ::ERR_clear_error();
    const int put =
        ::SSL_write(ssl_, from, static_cast<int>(std::min<std::size_t>(size, 1U << 20U)));
    if (put <= 0) errno = EPIPE;
    return put;
  }

 private:
  SSL* ssl_ = nullptr;
};

struct TlsRig : Rig {
  explicit TlsRig(const Pair& pair, const Limits& limits = {}) : Rig(limits, "") {
    on_loop([&] {
      std::string why;
      REQUIRE(server().load_tls(pair.certificate, pair.key, why));
      REQUIRE_FALSE(server().listen("127.0.0.1:0", Scheme::https));
    });
  }
};

TEST_CASE("requests pass through TLS as they do without", "[http]") {
  const TempDir dir;
  TlsRig rig(Pair(dir, "one"), {.max_body = 16U << 20U});
  CHECK(rig.url().starts_with("https://127.0.0.1:"));
  TlsClient client(rig.url());
  REQUIRE(client.is_connected);
  CHECK(client.version() == "TLSv1.3");
  CHECK(client.ask(raw_request("GET", "/what?q"))->body == "GET|/what|q||https");
  const std::string body(3U << 20U, 'b');
  CHECK((client.ask(raw_request("POST", "/echo", body))->body == body));
  REQUIRE(client.send(raw_request("GET", "/park") + raw_request("POST", "/echo", "two") +
                      raw_request("GET", "/later")));
  REQUIRE(rig.has_parked(1));
  REQUIRE(rig.reply_to_parked("one"));
  CHECK(client.read_reply()->body == "one");
  CHECK(client.read_reply()->body == "two");
  CHECK(client.read_reply()->body == "later");
}

TEST_CASE("a TLS peer that goes away while parked is noticed", "[http]") {
  const TempDir dir;
  TlsRig rig(Pair(dir, "one"));
  TlsClient client(rig.url());
  REQUIRE(client.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  client.close();
  CHECK(eventually([&] { return rig.gone == 1; }));
}

TEST_CASE("TLS 1.2 is spoken, older versions are not", "[http]") {
  const TempDir dir;
  TlsRig rig(Pair(dir, "one"));
  TlsClient older(rig.url(), TLS1_2_VERSION);
  REQUIRE(older.is_connected);
  CHECK(older.version() == "TLSv1.2");
  CHECK(older.ask(raw_request("GET", "/what"))->status == 200);
  TlsClient oldest(rig.url(), TLS1_1_VERSION);
  CHECK_FALSE(oldest.is_connected);
}

TEST_CASE("plain HTTP on a TLS port is closed, without harm to others", "[http]") {
  const TempDir dir;
  TlsRig rig(Pair(dir, "one"));
  RawClient plain(rig.url());
  REQUIRE(plain.send(raw_request("GET", "/what")));
  CHECK(plain.read_to_end());
  RawClient garbage(rig.url());
  REQUIRE(garbage.send(std::string(100000, '\x7f')));
  CHECK(garbage.read_to_end());
  CHECK(TlsClient(rig.url()).ask(raw_request("GET", "/what"))->status == 200);
  plain.close();
  garbage.close();
  CHECK(rig.becomes_empty());
}

TEST_CASE("a handshake that does not go on is given up", "[http]") {
  const TempDir dir;
  TlsRig rig(Pair(dir, "one"), {.header_timeout = 200ms});
  RawClient mute(rig.url());
  CHECK(mute.read_to_end() == "");
  CHECK(rig.becomes_empty());
}

TEST_CASE("a new certificate is used for new connections, old ones go on", "[http]") {
  const TempDir dir;
  const Pair one(dir, "one");
  const Pair two(dir, "two");
  TlsRig rig(one);
  TlsClient before(rig.url());
  CHECK(before.server_name() == "one");
  CHECK(before.ask(raw_request("GET", "/what"))->status == 200);
  rig.on_loop([&] {
    std::string why;
    CHECK(rig.server().load_tls(two.certificate, two.key, why));
    // What cannot be used changes nothing.
    CHECK_FALSE(rig.server().load_tls(two.certificate, one.key, why));
    CHECK(why.find(one.key) != std::string::npos);
    CHECK_FALSE(rig.server().load_tls(dir / "none", two.key, why));
    CHECK(why.find("none") != std::string::npos);
  });
  TlsClient after(rig.url());
  CHECK(after.server_name() == "two");
  CHECK(after.ask(raw_request("GET", "/what"))->status == 200);
  CHECK(before.ask(raw_request("GET", "/what"))->status == 200);
}

}  // namespace
}  // namespace holdfast::http::testing
