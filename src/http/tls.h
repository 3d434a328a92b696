#pragma once

#include <memory>
#include <string>

struct ssl_ctx_st;

namespace holdfast::http {

/// A certificate with its key and what we speak with it: TLS 1.2 and newer.
///
/// Owns:     the OpenSSL context. Connections keep it as long as they need it.
class Tls {
 public:
  /// Null, with the reason in `why`, if the files do not make a pair that can be used.
  static std::shared_ptr<const Tls> load(const std::string& certificate_file,
                                         const std::string& key_file, std::string& why);

  explicit Tls(ssl_ctx_st* context) : context_(context) {}
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls();

  ssl_ctx_st* context() const { return context_; }

 private:
  ssl_ctx_st* context_;
};

}  // namespace holdfast::http
