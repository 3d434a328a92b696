#include "program.h"

#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>

namespace holdfast::testing {
namespace {

bool names(const Words& words, const std::string& option) {
  return std::find(words.begin(), words.end(), option) != words.end();
}

}  // namespace

Json Reply::json() const {
  return Json::parse(body, nullptr, false);
}

std::string request_text(const std::string& method, const std::string& target,
                         const std::string& body, const std::string& fields) {
  return raw_request(method, target, body,
                     (body.empty() ? "" : "Content-Type: application/json\r\n") + fields);
}

Reply ask(const std::string& address, const std::string& method, const std::string& target,
          const std::string& body, const std::string& fields) {
  RawClient client(address);
  client.send(request_text(method, target, body, fields));
  auto reply = client.read_reply(method == "HEAD");
  return reply ? Reply{std::move(*reply)} : Reply{};
}

std::string bearer(const std::string& token) {
  return "Authorization: Bearer " + token + "\r\n";
}

std::string claim_text(const std::string& resource, double ttl) {
  return Json{{"resource", resource}, {"ttl", ttl}}.dump();
}

Program::Program(Words words, std::map<std::string, std::string> env, const Words& under) {
  Words all{"/bin/sh", "-c", R"(exec setpriv --pdeathsig KILL "$0" "$@" >"$SAYS" 2>"$COMPLAINS")"};
  all.insert(all.end(), under.begin(), under.end());
  all.push_back(tool("holdfastd"));
  const bool has_config = names(words, "--config");
  if (!names(words, "--store") && !has_config) words.insert(words.end(), {"--store", "memory:"});
  if (!names(words, "--listen") && !has_config)
    words.insert(words.end(), {"--listen", "127.0.0.1:0"});
  all.insert(all.end(), words.begin(), words.end());
  env["SAYS"] = dir_ / "says";
  env["COMPLAINS"] = dir_ / "complains";
  write_file(dir_ / "says", "");
  process_ = std::make_unique<Process>(all, RunOptions{.env = env});
  (void)eventually([this] { return said().ends_with("\n") || !is_running(); });
  INFO(complained());
  const std::string line = said();
  REQUIRE(line.starts_with("holdfastd: listening on "));
  std::istringstream places(line.substr(24));
  for (std::string place; places >> place;) addresses_.push_back(place);
}

Program::~Program() {
  if (!process_) return;
  const int code = stop();
  if (code == 0) return;
  std::cerr << "holdfastd ended with " << code << ":\n" << complained() << std::endl;
  std::_Exit(EXIT_FAILURE);
}

bool Program::is_running() const {
  siginfo_t info{};
  return process_ &&
         waitid(P_PID, static_cast<id_t>(process_->pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
             0 &&
         info.si_pid == 0;
}

bool Program::has_complained(const std::string& text) const {
  return eventually([&] { return complained().find(text) != std::string::npos; });
}

bool Program::has_ended() const {
  return eventually([this] { return !is_running(); });
}

int Program::wait() {
  if (!eventually([this] { return !is_running(); }, std::chrono::seconds(30))) signal(SIGKILL);
  const int code = process_->wait();
  process_.reset();
  return code;
}

int Program::stop() {
  signal(SIGTERM);
  return wait();
}

long Program::claim(const std::string& resource, double ttl, const std::string& fields) const {
  const Reply reply = ask("POST", "/v1/claims/", claim_text(resource, ttl), fields);
  INFO(reply.head << reply.body);
  REQUIRE((reply.status == 201 || reply.status == 202));
  return reply.json()["id"];
}

std::string new_token(const std::string& file, const std::string& name, const std::string& scopes,
                      const Words& more) {
  Words words{"holdfastd", "token", "--tokens", file, name, "--scope", scopes};
  words.insert(words.end(), more.begin(), more.end());
  const Result result = run(words);
  INFO(result.err);
  REQUIRE(result.code == 0);
  REQUIRE(result.out.ends_with("\n"));
  return result.out.substr(0, result.out.size() - 1);
}

std::string path_of(long id) {
  return "/v1/claims/" + std::to_string(id) + "/";
}

}  // namespace holdfast::testing
