#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <system_error>

namespace holdfast::http {
namespace {

/// The first of the reasons that were given: what follows is only that the rest failed too.
std::string first_reason() {
  const unsigned long code = ::ERR_peek_error();
  if (ERR_SYSTEM_ERROR(code)) {
    ::ERR_clear_error();
    return std::generic_category().message(ERR_GET_REASON(code));
  }
  const char* text = code != 0 ? ::ERR_reason_error_string(code) : nullptr;
  ::ERR_clear_error();
  return text != nullptr ? text : "unknown reason";
}

}  // namespace

Tls::~Tls() {
  ::SSL_CTX_free(context_);
}

std::shared_ptr<const Tls> Tls::load(const std::string& certificate_file,
                                     const std::string& key_file, std::string& why) {
  ::ERR_clear_error();
  auto tls = std::make_shared<const Tls>(::SSL_CTX_new(::TLS_server_method()));
  SSL_CTX* context = tls->context();
  const auto refused = [&](const std::string& what) {
    why = what + ": " + first_reason();
    return nullptr;
  };
  if (context == nullptr) return refused("TLS");
  (void)::SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // A peer that just closes did not cut a message short unseen: messages carry their length.
  (void)::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  (void)::SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                        SSL_MODE_RELEASE_BUFFERS);
  (void)::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (::SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1) {
    return refused(certificate_file);
  }
  if (::SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return refused(key_file);
  }
  if (::SSL_CTX_check_private_key(context) != 1) return refused(key_file);
  return tls;
}

}  // namespace holdfast::http
