#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "http/message.h"

namespace holdfast::http {

/// Takes the bytes of one request after the other apart.
///
/// Owns:     nothing of the bytes: what put() leaves must be there again in front of what follows.
/// Never:    keeps more than the limits allow, or lets two readings of a message's length pass.
class Parser {
 public:
  enum class Step {
    more,   ///< all of it was looked at, and the request is not whole
    head,   ///< the fields are complete and a body follows; told once
    whole,  ///< the request is complete
    fault,  ///< see status() and why(); nothing can be read after it
  };

  Parser();
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser();

  /// Begins a request; `into` outlives it.
  void start(Request& into, std::size_t max_header, std::size_t max_body);

  /// Takes what it can from the front of `input`.
  Step put(std::string_view& input);

  int status() const;            ///< of a fault: 400, 413, 417 or 431
  std::string_view why() const;  ///< for people
  bool is_head_done() const;
  bool is_keep_alive() const;   ///< as the peer wants it; after the head
  bool wants_continue() const;  ///< Expect: 100-continue; after the head

 private:
  class Machine;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::http
