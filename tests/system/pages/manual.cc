#include "manual.h"

#include <algorithm>
#include <boost/filesystem.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {
namespace {

std::string unquoted(std::string text) {
  std::erase(text, '"');
  return text;
}

bool is_macro(const std::string& line, std::string_view name) {
  return line.starts_with("." + std::string(name) + " ") || line == "." + std::string(name);
}

/// What a tag line prints, more or less: the macro's name is dropped.
std::string tag_text(const std::string& line) {
  const std::size_t from = line.starts_with('.') ? line.find(' ') + 1 : 0;
  return unquoted(without_escapes(line.substr(from)));
}

}  // namespace

Page::Page(const std::string& file) : file_(file), lines_(split_lines(read_file(path()))) {
  const auto header = std::find_if(lines_.begin(), lines_.end(),
                                   [](const std::string& line) { return is_macro(line, "TH"); });
  if (header == lines_.end()) throw std::runtime_error(file + " is missing or has no .TH");
  header_ = without_escapes(*header);
}

std::string Page::path() const {
  return source_dir() + "/man/" + file_;
}

std::vector<std::string> Page::sections() const {
  std::vector<std::string> names;
  for (const std::string& line : lines_) {
    if (is_macro(line, "SH")) names.push_back(unquoted(line.substr(4)));
  }
  return names;
}

bool Page::has_section(const std::string& name) const {
  const auto names = sections();
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> Page::lines(const std::string& section, const std::string& part) const {
  std::vector<std::string> found;
  bool in_section = false;
  bool in_part = part.empty();
  for (const std::string& line : lines_) {
    if (is_macro(line, "SH")) {
      in_section = unquoted(line.substr(4)) == section;
      in_part = part.empty();
    } else if (is_macro(line, "SS") && !part.empty()) {
      in_part = unquoted(line.substr(4)) == part;
    } else if (in_section && in_part) {
      found.push_back(line);
    }
  }
  return found;
}

std::vector<std::string> Page::tags(const std::string& section, const std::string& part) const {
  std::vector<std::string> found;
  bool is_next = false;
  for (const std::string& line : lines(section, part)) {
    if (is_next) found.push_back(tag_text(line));
    is_next = is_macro(line, "TP") || is_macro(line, "TQ");
  }
  return found;
}

std::vector<std::string> Page::examples() const {
  std::vector<std::string> blocks;
  bool in_block = false;
  for (const std::string& line : lines("EXAMPLES")) {
    if (line == ".EX") {
      in_block = true;
      blocks.emplace_back();
    } else if (line == ".EE") {
      in_block = false;
    } else if (in_block) {
      blocks.back() += without_escapes(line) + "\n";
    }
  }
  return blocks;
}

std::vector<std::string> page_files() {
  static const std::regex kPage(R"(.+\.[1-8])");
  std::vector<std::string> files;
  for (const auto& entry : boost::filesystem::directory_iterator(source_dir() + "/man")) {
    const std::string name = entry.path().filename().native();
    if (std::regex_match(name, kPage)) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> tool_names() {
  static const std::regex kRow(R"(  ([a-z_]+) +[a-z].*)");
  std::vector<std::string> names;
  bool in_list = false;
  for (const std::string& line : split_lines(run({"holdfast", "--help"}).out)) {
    std::smatch row;
    if (line.starts_with("usage:")) in_list = true;
    if (line.starts_with("Each tool")) break;
    if (in_list && std::regex_match(line, row, kRow)) names.push_back(row[1]);
  }
  return names;
}

std::string without_escapes(std::string_view text) {
  static const std::vector<std::pair<std::string_view, std::string_view>> kEscapes = {
      {"\\-", "-"},   {"\\e", "\\"},   {"\\&", ""},    {"\\%", ""},    {"\\c", ""},
      {"\\(aq", "'"}, {"\\(dq", "\""}, {"\\(ti", "~"}, {"\\(ha", "^"}, {"\\(ga", "`"},
      {"\\(bu", "*"}, {"\\fB", ""},    {"\\fI", ""},   {"\\fR", ""},   {"\\fP", ""},
  };
  std::string printed;
  while (!text.empty()) {
    const auto known = std::find_if(kEscapes.begin(), kEscapes.end(), [&](const auto& escape) {
      return text.starts_with(escape.first);
    });
    if (known != kEscapes.end()) {
      printed += known->second;
      text.remove_prefix(known->first.size());
    } else if (text.front() == '\\') {
      throw std::runtime_error("unknown escape: " + std::string(text));
    } else {
      printed += text.front();
      text.remove_prefix(1);
    }
  }
  return printed;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::set<std::string> options_in(const std::string& text) {
  static const std::regex kOption(R"((?:^|[\s|\[(,'])(--?[a-z][a-z-]*))");
  std::set<std::string> options;
  for (std::sregex_iterator it(text.begin(), text.end(), kOption), end; it != end; ++it) {
    options.insert((*it)[1]);
  }
  return options;
}

std::vector<Fence> fences_below(const std::string& markdown, const std::string& heading) {
  std::vector<Fence> fences;
  bool is_below = false;
  bool in_fence = false;
  for (const std::string& line : split_lines(markdown)) {
    if (line.starts_with("```")) {
      in_fence = !in_fence;
      if (is_below && in_fence) fences.push_back({line.substr(3), {}});
    } else if (in_fence) {
      if (is_below) fences.back().text += line + "\n";
    } else if (line.starts_with("## ")) {
      is_below = line == "## " + heading;
    }
  }
  return fences;
}

}  // namespace holdfast::testing
