/// Reading the manual and the README as data.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::testing {

/// A page of man/, read from its source.
class Page {
 public:
  explicit Page(const std::string& file);  ///< "fast_lock.1"

  const std::string& file() const { return file_; }
  std::string path() const;
  const std::string& header() const { return header_; }  ///< the .TH line

  std::vector<std::string> sections() const;
  bool has_section(const std::string& name) const;

  /// Lines of a section, or of the subsection `part` in it; none if there is none.
  std::vector<std::string> lines(const std::string& section, const std::string& part = {}) const;

  /// What stands after each .TP or .TQ there, without macros, fonts and quotes.
  std::vector<std::string> tags(const std::string& section, const std::string& part = {}) const;

  /// Each .EX block of EXAMPLES as it is printed.
  std::vector<std::string> examples() const;

 private:
  std::string file_;
  std::string header_;
  std::vector<std::string> lines_;
};

std::vector<std::string> page_files();  ///< all of man/, sorted
std::vector<std::string> tool_names();  ///< as `holdfast --help` lists them

/// Text as it is printed: escapes resolved. Throws on one that it does not know.
std::string without_escapes(std::string_view text);

std::vector<std::string> split_lines(std::string_view text);

/// "-d", "--info" and the like.
std::set<std::string> options_in(const std::string& text);

struct Fence {
  std::string language;
  std::string text;
};

/// The fenced blocks below a heading of a Markdown text, up to the next heading of that level.
std::vector<Fence> fences_below(const std::string& markdown, const std::string& heading);

}  // namespace holdfast::testing
