#include "server/pg_rows.h"

namespace holdfast::server {
namespace {

template <class Get>
std::string numbers_of(const std::vector<const Claim*>& claims, Get get) {
  std::vector<std::int64_t> values;
  values.reserve(claims.size());
  for (const Claim* claim : claims) values.push_back(static_cast<std::int64_t>(get(*claim)));
  return pg_array(values);
}

std::string texts_of(const std::vector<const Claim*>& claims, std::string Claim::*member) {
  std::vector<std::string> values;
  values.reserve(claims.size());
  for (const Claim* claim : claims) values.push_back(claim->*member);
  return pg_text_array(values);
}

}  // namespace

Stamp to_stamp(std::int64_t micros) {
  return {Micros(micros), Micros(micros)};
}

bool is_unknown(const PgRows& rows, std::size_t row) {
  return claims::status_of(rows.number(row, kPgStatusColumn)) == Status::unknown ||
         claims::mode_of(rows.number(row, kPgModeColumn)) == Mode::unknown;
}

Claim to_claim(const PgRows& rows, std::size_t row, int first) {
  int column = first;
  const auto text = [&] { return std::string(rows.text(row, column++)); };
  const auto number = [&] { return rows.number(row, column++); };
  Claim claim;
  claim.id = static_cast<ClaimId>(number());
  ++column;  // the resource's number
  claim.resource = text();
  claim.key = text();
  claim.user_data = text();
  claim.reason = text();
  claim.owner = text();
  claim.ttl = Micros(number());
  claim.waiting_ttl = Micros(number());
  claim.mode = claims::mode_of(number());
  claim.status = claims::status_of(number());
  claim.is_confirmed = rows.flag(row, column++);
  claim.count = static_cast<std::uint32_t>(number());
  claim.fence = static_cast<std::uint64_t>(number());
  claim.queued = to_stamp(number());
  claim.activated = to_stamp(number());
  claim.ended = to_stamp(number());
  claim.deadline = Micros(number());
  claim.heard = Micros(number());
  return claim;
}

PgStatement insert_claims(std::int64_t resource, const std::vector<const Claim*>& claims,
                          std::int64_t attempt) {
  constexpr auto kSql =
      "INSERT INTO holdfast.claims (resource, origin, attempt, id, owner, key, user_data, reason, "
      "ttl, waiting_ttl, mode, status, is_confirmed, count, fence, queued, activated, ended, "
      "deadline, heard) "
      "SELECT $1::bigint, $2::bigint, $2::bigint, n.id, n.owner, n.key, n.user_data, n.reason, "
      "n.ttl, n.waiting_ttl, n.mode, n.status, n.is_confirmed <> 0, n.count, n.fence, n.queued, "
      "n.activated, n.ended, n.deadline, n.heard "
      "FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], "
      "$9::bigint[], $10::smallint[], $11::smallint[], $12::bigint[], $13::bigint[], "
      "$14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[]) "
      "AS n(id, owner, key, user_data, reason, ttl, waiting_ttl, mode, status, is_confirmed, "
      "count, "
      "fence, queued, activated, ended, deadline, heard)";
  return {kSql,
          {std::to_string(resource), std::to_string(attempt),
           numbers_of(claims, [](const Claim& c) { return c.id; }), texts_of(claims, &Claim::owner),
           texts_of(claims, &Claim::key), texts_of(claims, &Claim::user_data),
           texts_of(claims, &Claim::reason),
           numbers_of(claims, [](const Claim& c) { return c.ttl.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.waiting_ttl.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.mode; }),
           numbers_of(claims, [](const Claim& c) { return c.status; }),
           numbers_of(claims, [](const Claim& c) { return c.is_confirmed; }),
           numbers_of(claims, [](const Claim& c) { return c.count; }),
           numbers_of(claims, [](const Claim& c) { return c.fence; }),
           numbers_of(claims, [](const Claim& c) { return c.queued.time.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.activated.time.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.ended.time.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.deadline.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.heard.count(); })}};
}

PgStatement update_claims(const std::vector<const Claim*>& claims, std::int64_t attempt) {
  constexpr auto kSql =
      "UPDATE holdfast.claims AS c SET attempt = $1::bigint, reason = n.reason, status = n.status, "
      "is_confirmed = n.is_confirmed <> 0, fence = n.fence, activated = n.activated, "
      "ended = n.ended, deadline = n.deadline, heard = n.heard "
      "FROM unnest($2::bigint[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[], "
      "$7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[]) "
      "AS n(id, reason, status, is_confirmed, fence, activated, ended, deadline, heard) "
      "WHERE c.id = n.id";
  return {kSql,
          {std::to_string(attempt), numbers_of(claims, [](const Claim& c) { return c.id; }),
           texts_of(claims, &Claim::reason),
           numbers_of(claims, [](const Claim& c) { return c.status; }),
           numbers_of(claims, [](const Claim& c) { return c.is_confirmed; }),
           numbers_of(claims, [](const Claim& c) { return c.fence; }),
           numbers_of(claims, [](const Claim& c) { return c.activated.time.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.ended.time.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.deadline.count(); }),
           numbers_of(claims, [](const Claim& c) { return c.heard.count(); })}};
}

}  // namespace holdfast::server
