// SPDX-License-Identifier: Apache-2.0
// The little of NCCL that is needed here, found when it runs: a build needs neither its header nor its
// library. The declarations are those of nccl.h, unchanged since version 2.10.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tessera::gpu {

/// Communicators of one process, one for each of its GPUs; or that of its rank among several processes.
class Nccl {
 public:
  enum class Type : int { int32 = 2, fp16 = 6, fp32 = 7, fp64 = 8, bf16 = 9 };  // ncclDataType_t

  /// Null, with the reason in `why`, if there is no libnccl.so.2 that the system's linker finds. Throws with
  /// NCCL's own words. Leaves any device current.
  static std::unique_ptr<Nccl> open(std::vector<int> const& devices, std::string& why) {
    auto nccl = load(why);
    if (nccl == nullptr) return nullptr;
    std::vector<void*> ranks(devices.size(), nullptr);
    nccl->ok(nccl->init_all_(ranks.data(), static_cast<int>(devices.size()), devices.data()),
             "ncclCommInitAll");
    nccl->ranks_ = std::move(ranks);
    return nccl;
  }

  // For a rank of several processes: load() on all, new_id() on one, join() on all with that.

  static std::unique_ptr<Nccl> load(std::string& why) {
    std::unique_ptr<Nccl> nccl(new Nccl);
    // Never closed: the library's threads may outlive the communicators for a moment.
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      char const* const text = dlerror();
      why = text != nullptr ? text : "libnccl.so.2 cannot be loaded";
      return nullptr;
    }
    if (!find(library, "ncclGetVersion", nccl->get_version_) ||
        !find(library, "ncclCommInitAll", nccl->init_all_) ||
        !find(library, "ncclGetUniqueId", nccl->get_id_) ||
        !find(library, "ncclCommInitRank", nccl->init_rank_) ||
        !find(library, "ncclCommDestroy", nccl->destroy_) || !find(library, "ncclCommAbort", nccl->abort_) ||
        !find(library, "ncclAllReduce", nccl->all_reduce_) ||
        !find(library, "ncclReduceScatter", nccl->reduce_scatter_) ||
        !find(library, "ncclAllGather", nccl->all_gather_) || !find(library, "ncclSend", nccl->send_) ||
        !find(library, "ncclRecv", nccl->receive_) || !find(library, "ncclGroupStart", nccl->group_begin_) ||
        !find(library, "ncclGroupEnd", nccl->group_end_) ||
        !find(library, "ncclGetErrorString", nccl->text_)) {
      why = "libnccl.so.2 lacks a function";
      dlclose(library);
      return nullptr;
    }
    nccl->ok(nccl->get_version_(&nccl->version_), "ncclGetVersion");
    return nccl;
  }
  std::string new_id() const {
    Id id{};
    ok(get_id_(&id), "ncclGetUniqueId");
    return {id.bytes, sizeof id.bytes};
  }
  /// Waits for the others without end. With the rank's GPU current.
  void join(int ranks, int rank, std::string const& id) {
    Id same{};
    id.copy(same.bytes, sizeof same.bytes);
    ranks_.assign(static_cast<std::size_t>(ranks), nullptr);
    ok(init_rank_(&ranks_[static_cast<std::size_t>(rank)], ranks, same, rank), "ncclCommInitRank");
  }
  /// Ends what is in flight, and the communicators.
  void abort() {
    for (void*& rank : ranks_)
      if (rank != nullptr) (void)abort_(std::exchange(rank, nullptr));
  }
  ~Nccl() {
    for (void* rank : ranks_)
      if (rank != nullptr) destroy_(rank);
  }
  Nccl(Nccl const&) = delete;
  Nccl& operator=(Nccl const&) = delete;

  // On the rank's stream, with its GPU current. Every rank calls it, from a thread of its own or between
  // group_begin() and group_end(). They throw with NCCL's own words.

  /// Sum over all ranks.
  void all_reduce(int rank, void const* from, void* to, std::size_t count, Type type,
                  cudaStream_t stream) const {
    ok(all_reduce_(from, to, count, static_cast<int>(type), k_sum, at(rank), stream), "ncclAllReduce");
  }
  /// The rank's part, of `count` elements, of the sum of ranks * count.
  void reduce_scatter(int rank, void const* from, void* to, std::size_t count, Type type,
                      cudaStream_t stream) const {
    ok(reduce_scatter_(from, to, count, static_cast<int>(type), k_sum, at(rank), stream),
       "ncclReduceScatter");
  }
  /// `count` elements of each rank, one behind the other.
  void all_gather(int rank, void const* from, void* to, std::size_t count, Type type,
                  cudaStream_t stream) const {
    ok(all_gather_(from, to, count, static_cast<int>(type), at(rank), stream), "ncclAllGather");
  }
  /// One call of the peer's for each, in the same order; of all ranks between group_begin() and group_end().
  void send(int rank, void const* from, std::size_t count, Type type, int peer, cudaStream_t stream) const {
    ok(send_(from, count, static_cast<int>(type), peer, at(rank), stream), "ncclSend");
  }
  void receive(int rank, void* to, std::size_t count, Type type, int peer, cudaStream_t stream) const {
    ok(receive_(to, count, static_cast<int>(type), peer, at(rank), stream), "ncclRecv");
  }
  void group_begin() const { ok(group_begin_(), "ncclGroupStart"); }
  void group_end() const { ok(group_end_(), "ncclGroupEnd"); }
  /// From begin to end, also where a call between them throws: a group that is left open keeps all later
  /// calls of this thread.
  class Group {
   public:
    explicit Group(Nccl const& nccl) : nccl_(&nccl) { nccl.group_begin(); }
    void end() { std::exchange(nccl_, nullptr)->group_end(); }
    ~Group() {
      if (nccl_ != nullptr) (void)nccl_->group_end_();
    }
    Group(Group const&) = delete;
    Group& operator=(Group const&) = delete;

   private:
    Nccl const* nccl_;
  };

  /// As NCCL writes it: 22809 for 2.28.9.
  int version() const { return version_; }

 private:
  using Result = int;  // ncclResult_t; 0: success
  static constexpr int k_sum = 0;
  struct Id {  // ncclUniqueId
    char bytes[128];
  };

  Nccl() = default;
  template <class Function>
  static bool find(void* library, char const* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    return function != nullptr;
  }
  void ok(Result result, char const* call) const {
    if (result != 0) throw std::runtime_error(std::string(call) + ": " + text_(result));
  }
  void* at(int rank) const {
    auto* const one = ranks_[static_cast<std::size_t>(rank)];
    if (one == nullptr) throw std::runtime_error("NCCL was ended: a rank is lost");
    return one;
  }

  Result (*get_version_)(int*) = nullptr;
  Result (*init_all_)(void**, int, int const*) = nullptr;
  Result (*get_id_)(Id*) = nullptr;
  Result (*init_rank_)(void**, int, Id, int) = nullptr;
  Result (*destroy_)(void*) = nullptr;
  Result (*abort_)(void*) = nullptr;
  Result (*all_reduce_)(void const*, void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  Result (*reduce_scatter_)(void const*, void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  Result (*all_gather_)(void const*, void*, std::size_t, int, void*, cudaStream_t) = nullptr;
  Result (*send_)(void const*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  Result (*receive_)(void*, std::size_t, int, int, void*, cudaStream_t) = nullptr;
  Result (*group_begin_)() = nullptr;
  Result (*group_end_)() = nullptr;
  char const* (*text_)(Result) = nullptr;
  std::vector<void*> ranks_;
  int version_ = 0;
};

}  // namespace tessera::gpu
