// Ranks as processes: every rank sends to every other one, and reduces the received data itself, in rank order.
//
// Only point-to-point messages of MPI are used: they can be awaited with a deadline and checked when a rank is gone,
// and MPI's collectives cannot.
#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "../../tensor/settings.hpp"
#include "../error.hpp"
#include "process.hpp"

namespace weft::distributed::mpi {

namespace {

using detail::CallRecord;
using detail::Received;
using detail::Sent;
using detail::Wire;

// Tags have at least 23 bits: the group number, then a phase or a message tag.
constexpr int phase_bits = 8, tag_bits = 12;
constexpr int most_groups = 1 << 11;

bool checks_calls() {
  if (const char* text = weft::detail::setting("WEFT_CHECK_COLLECTIVES"); text != nullptr && *text != '\0') {
    return weft::detail::is_switched_on("WEFT_CHECK_COLLECTIVES");
  }
#if defined(NDEBUG)
  return false;
#else
  return true;
#endif
}

/// Description of a call that ranks exchange.
struct ToldCall {
  char text[200] = {};
  char place[200] = {};
};

class MpiWire final : public Wire {
 public:
  MpiWire(Process& process, std::vector<int> ranks, int rank, int number)
      : Wire(process.sent),
        process_(process),
        ranks_(std::move(ranks)),
        rank_(rank),
        number_(number),
        checks_(checks_calls()) {}

  const char* name() const override { return "MPI"; }

  void exchange(const CallRecord& call, std::span<const Sent> sends, std::span<const Received> receives,
                Clock::time_point deadline) override {
    count_sent(sends, rank_);
    exchange_uncounted(call, sends, receives, deadline);
  }

  void collect(const CallRecord& call, std::span<const Sent> sends, const Parts& use,
               Clock::time_point deadline) override {
    process_.check_failed(call.place);
    if (checks_) compare_calls(call, deadline);
    count_sent(sends, rank_);
    const Sent& own = sends[static_cast<size_t>(rank_)];
    const Tensor room = Tensor::adopt(weft::detail::new_tensor(
        Dims{static_cast<int64_t>(own.bytes) * (static_cast<int64_t>(ranks_.size()) - 1)}, DType::u8, Device()));
    char* next = static_cast<char*>(room.data_ptr());
    std::vector<Received> receives(ranks_.size());
    std::vector<const void*> parts(ranks_.size(), own.data);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (static_cast<int>(r) == rank_) continue;
      receives[r] = {next, own.bytes};
      parts[r] = next;
      next += own.bytes;
    }
    try {
      exchange_bytes(call.place, sends, receives, deadline);
    } catch (...) {
      process_.keep({room});
      throw;
    }
    use(parts);
  }

  void wait_for_all(const CallRecord& call, Clock::time_point deadline) override {
    static constexpr char one = 1;
    std::vector<char> got(ranks_.size());
    const std::vector<Sent> sends(ranks_.size(), {&one, 1});
    std::vector<Received> receives;
    for (char& from : got) receives.push_back({&from, 1});
    exchange_uncounted(call, sends, receives, deadline);
  }

  void fail(const std::string& what) noexcept override { process_.fail(what); }
  void check_others(const CallPlace& place) override { process_.check_others(ranks_, place); }
  void keep(std::vector<Tensor> memory) override { process_.keep(std::move(memory)); }

  std::unique_ptr<Transfer> send(const CallPlace& place, int to, int tag, const Header& header, Sent data) override;
  Header peek(const CallPlace& place, int from, int tag, Clock::time_point deadline) override {
    process_.check_failed(place);
    process_.wait_for_message(Channel::headers, world_rank(from), message_tag(tag), place, deadline);
    std::vector<Request> requests;
    Header header;
    process_.receive(requests, Channel::headers, world_rank(from), message_tag(tag), &header, sizeof(header));
    process_.wait(requests, place, deadline);
    peeked_.push_back({from, tag, header});
    return header;
  }
  std::unique_ptr<Transfer> receive(const CallPlace& place, int from, int tag, const Header& header,
                                    Received data) override;

  Shared<Wire> of_subgroup(std::span<const int> ranks, const CallRecord& call, Clock::time_point deadline) override {
    const auto me = std::find(ranks.begin(), ranks.end(), process_.rank());
    MpiWire maker(process_, {ranks.begin(), ranks.end()}, static_cast<int>(me - ranks.begin()), 0);
    return make_wire(process_, maker.ranks_, maker.rank_, maker.agree_on_number(call, deadline));
  }
  void count_work(int change) noexcept override { process_.count_work(change); }

 private:
  class Message;
  struct Peeked {
    int from, tag;
    Header header;
  };

  int world_rank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  int message_tag(int tag) const { return number_ << tag_bits | tag; }

  void exchange_uncounted(const CallRecord& call, std::span<const Sent> sends, std::span<const Received> receives,
                          Clock::time_point deadline) {
    process_.check_failed(call.place);
    if (checks_) compare_calls(call, deadline);
    exchange_bytes(call.place, sends, receives, deadline);
  }

  void exchange_bytes(const CallPlace& place, std::span<const Sent> sends, std::span<const Received> receives,
                      Clock::time_point deadline) {
    const int tag = number_ << phase_bits | static_cast<int>(phase_++ & ((1 << phase_bits) - 1));
    std::vector<Request> requests;
    requests.reserve(2 * ranks_.size());
    const size_t me = static_cast<size_t>(rank_);
    try {
      for (size_t i = 1; i < ranks_.size(); ++i) {
        const size_t r = (me + i) % ranks_.size();
        process_.receive(requests, Channel::collectives, ranks_[r], tag, receives[r].data, receives[r].bytes);
      }
      for (size_t i = 1; i < ranks_.size(); ++i) {
        const size_t r = (me + ranks_.size() - i) % ranks_.size();
        process_.send(requests, Channel::collectives, ranks_[r], tag, sends[r].data, sends[r].bytes);
      }
    } catch (...) {
      process_.give_up(requests);
      throw;
    }
    if (receives[me].bytes != 0 && receives[me].data != sends[me].data) {
      std::memcpy(receives[me].data, sends[me].data, receives[me].bytes);
    }
    process_.wait(requests, place, deadline);
  }

  /// Compares the ranks' calls before they run.
  void compare_calls(const CallRecord& call, Clock::time_point deadline) {
    ToldCall own;
    const std::string text = call.text(), place = call.place.where.text();
    text.copy(own.text, sizeof(own.text) - 1);
    place.copy(own.place, sizeof(own.place) - 1);
    std::vector<ToldCall> all(ranks_.size());
    const std::vector<Sent> sends(ranks_.size(), {&own, sizeof(own)});
    std::vector<Received> receives;
    for (ToldCall& other : all) receives.push_back({&other, sizeof(other)});
    exchange_bytes(call.place, sends, receives, deadline);
    for (size_t r = 0; r < all.size(); ++r) {
      if (std::string_view(all[r].text) == own.text) continue;
      raise_disagreement(rank_, call, static_cast<int>(r), all[r].text, all[r].place);
    }
  }

  /// A number for the new group that none of its ranks has used.
  int agree_on_number(const CallRecord& call, Clock::time_point deadline) {
    const int own = process_.next_group();
    std::vector<int> all(ranks_.size());
    const std::vector<Sent> sends(ranks_.size(), {&own, sizeof(own)});
    std::vector<Received> receives;
    for (int& other : all) receives.push_back({&other, sizeof(other)});
    exchange_uncounted(call, sends, receives, deadline);
    const int number = *std::max_element(all.begin(), all.end());
    if (number >= most_groups) raise<DistributedError>({.problem = fmt::format("more than {} groups", most_groups)});
    process_.set_next_group(number + 1);
    return number;
  }

  Process& process_;
  const std::vector<int> ranks_;
  const int rank_, number_;
  const bool checks_;
  uint32_t phase_ = 0;
  std::vector<Peeked> peeked_;
};

/// A header and, if there are elements, a payload.
class MpiWire::Message final : public Transfer {
 public:
  Message(MpiWire& wire, const CallPlace& place, int to, int tag, const Header& header, Sent data)
      : process_(wire.process_), place_(place), other_(to), own_(header) {
    const int other = wire.world_rank(to), number = wire.message_tag(tag);
    process_.send(headers_, Channel::headers, other, number, &own_, sizeof(own_));
    process_.send(payloads_, Channel::payloads, other, number, data.data, data.bytes);
  }
  Message(MpiWire& wire, const CallPlace& place, int from, int tag, const Header& header, Received data,
          bool has_header)
      : process_(wire.process_), place_(place), other_(from), receives_(true), own_(header), arrived_(header) {
    const int other = wire.world_rank(from), number = wire.message_tag(tag);
    if (!has_header) process_.receive(headers_, Channel::headers, other, number, &arrived_, sizeof(arrived_));
    process_.receive(payloads_, Channel::payloads, other, number, data.data, data.bytes);
  }
  ~Message() override {
    process_.give_up(headers_);
    process_.give_up(payloads_);
  }

  bool test() override { return process_.test(headers_, place_) && process_.test(payloads_, place_); }
  void wait(Clock::time_point deadline) override {
    process_.wait(headers_, place_, deadline);
    if (receives_) check_header(place_, other_, arrived_, own_);
    process_.wait(payloads_, place_, deadline);
  }

 private:
  Process& process_;
  const CallPlace place_;
  const int other_;
  const bool receives_ = false;
  const Header own_;
  Header arrived_{};
  std::vector<Request> headers_, payloads_;
};

std::unique_ptr<Wire::Transfer> MpiWire::send(const CallPlace& place, int to, int tag, const Header& header,
                                              Sent data) {
  process_.check_failed(place);
  count_sent(data.bytes);
  return std::make_unique<Message>(*this, place, to, tag, header, data);
}

std::unique_ptr<Wire::Transfer> MpiWire::receive(const CallPlace& place, int from, int tag, const Header& header,
                                                 Received data) {
  process_.check_failed(place);
  const auto peeked =
      std::find_if(peeked_.begin(), peeked_.end(), [&](const Peeked& p) { return p.from == from && p.tag == tag; });
  const bool has_header = peeked != peeked_.end();
  if (has_header) peeked_.erase(peeked);
  return std::make_unique<Message>(*this, place, from, tag, header, data, has_header);
}

}  // namespace

Shared<Wire> make_wire(Process& process, std::vector<int> ranks, int rank, int number) {
  return Shared<MpiWire>::make(process, std::move(ranks), rank, number);
}

}  // namespace weft::distributed::mpi
