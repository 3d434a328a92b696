#pragma once

#include <string>
#include <string_view>

#include "ssh/survey.h"

namespace holdfast::ssh {

/// What a worker tells its parent while it works: a stream of parts over a pipe.
///
/// One part is a letter, four bytes of length and its text. A stream that ends without `answered`
/// or `failed` is the trace of a worker that was killed or crashed.
class Report {
 public:
  explicit Report(int fd) : fd_(fd) {}

  void stage(std::string_view doing) const { send('g', doing); }      ///< within the connect time
  void connected(std::string_view doing) const { send('c', doing); }  ///< within the total time
  void note(std::string_view text) const { send('n', text); }
  void output(std::string_view text) const { send('o', text); }
  void route(const Route& route) const;
  void answered(int status) const { send('a', std::to_string(status)); }
  void failed(std::string_view why) const { send('f', why); }

 private:
  void send(char kind, std::string_view text) const;

  int fd_;
};

/// The parent's end: takes bytes as they come and makes a reply of them.
class ReportReader {
 public:
  void take(std::string_view bytes, const std::string& host, const Log& log);

  bool is_connected() const { return is_connected_; }
  bool is_done() const { return is_done_; }
  const std::string& stage() const { return stage_; }
  Reply& reply() { return reply_; }

 private:
  void part(char kind, std::string text, const std::string& host, const Log& log);

  std::string pending_;
  std::string stage_;
  bool is_connected_ = false;
  bool is_done_ = false;
  Reply reply_;
};

/// Text from elsewhere as one line: no control characters, no blanks at its ends.
std::string one_line(std::string_view text);

}  // namespace holdfast::ssh
