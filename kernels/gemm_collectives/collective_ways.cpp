// SPDX-License-Identifier: Apache-2.0
// What a rank launches: the steps of its schedule, or what a library does.
#include "collective_state.hpp"

namespace tessera::gemm_collectives {

void GemmCollective::State::product(int rank, int rows, PieceOperands const& operands, Step const& step,
                                    cudaStream_t stream) {
  auto const& piece = (operands.c == nullptr ? pieces : adding).at(rows);
  bool const chains = operands.c == nullptr && piece.chains();
  must(piece.run(operands, at(own->at(rank), workspace_at), step.lets_next && chains, step.early && chains,
                 stream));
}

void GemmCollective::State::multiply(int rank, Step const& step, std::vector<Operands> const& operands,
                                     cudaStream_t stream) {
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  auto const& rows = step.rows;
  bool const gathers = problem.collective == Collective::all_gather;
  void const* a = at(mine.a, input_bytes(rows.begin));
  // What has come of a peer's rows, or the own ones, which are all that there is of them.
  if (gathers) a = step.peer == rank ? mine.a : slot(rank, step.peer);
  if (step.act == Act::add) {
    int const first = problem.collective == Collective::all_reduce ? 0 : shard(rank).begin;
    void const* const come = at(slot(rank, step.peer), output_bytes(rows.begin - shard(rank).begin));
    product(rank, rows.rows(), {a, mine.b, at(mine.d, output_bytes(rows.begin - first)), come}, step, stream);
    return;
  }
  void* d = at(mine.d, output_bytes(rows.begin));
  if (step.to == Place::partial) d = partial(rank);
  std::size_t const offset = step.to == Place::sent || step.to == Place::slot
                                 ? output_bytes(rows.begin - shard(step.peer).begin)
                                 : 0;
  if (step.to == Place::sent) d = at(sent(rank, step.peer), offset);
  if (step.to == Place::slot) d = at(slot(step.peer, rank), offset);
  product(rank, rows.rows(), {a, mine.b, d}, step, stream);
}

void GemmCollective::State::copy(int rank, Step const& step, std::vector<Operands> const& operands,
                                 cudaStream_t stream) const {
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  void const* from = mine.a;
  void* to = slot(step.peer, rank);
  auto bytes = output_bytes(step.rows.rows());
  if (step.from == Place::operand) {
    bytes = input_bytes(step.rows.rows());
  } else if (step.from == Place::result) {
    from = at(mine.d, output_bytes(step.rows.begin));
    to = at(operands[static_cast<std::size_t>(step.peer)].d, output_bytes(step.rows.begin));
  } else {
    auto const offset = output_bytes(step.rows.begin - shard(step.peer).begin);
    from = at(sent(rank, step.peer), offset);
    to = at(to, offset);
  }
  // Not cudaMemcpyPeerAsync(), which cannot be captured.
  ok(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
}

void GemmCollective::State::sum_of_words(int rank, Operands const& mine, cudaStream_t stream) const {
  WordsSum sum;
  sum.partial = partial(rank);
  sum.sum = mine.d;
  sum.elements = 1LL * problem.rows * problem.columns;
  for (int peer = 0; peer < count(); ++peer) sum.packets[peer] = at(shared->at(peer), shared_at);
  sum.type = type();
  ok(static_cast<cudaError_t>(all_reduce_words(operation(rank), sum, true, stream)));
}

void GemmCollective::State::fused(int rank, Operands const& mine, cudaStream_t stream) const {
  FusedProduct product;
  product.a = mine.a;
  product.b = mine.b;
  product.d = mine.d;
  product.rows = problem.rows;
  product.columns = problem.columns;
  product.depth = problem.local_depth();
  for (int peer = 0; peer < count(); ++peer) product.packets[peer] = at(shared->at(peer), shared_at);
  product.type = type();
  ok(static_cast<cudaError_t>(fused_all_reduce(operation(rank), product, stream)));
}

void GemmCollective::State::sum_of_shard(int rank, std::vector<Operands> const& operands,
                                         cudaStream_t stream) const {
  ShardSum sum;
  sum.slots = slot(rank, 0);
  sum.slot_elements = slot_elements(problem);
  auto const rows = shard(rank);
  sum.elements = 1LL * rows.rows() * problem.columns;
  sum.type = type();
  if (problem.collective == Collective::all_reduce) {
    // The peers' copies first: the link takes longer.
    sum.copies = count();
    for (int step = 0; step < count(); ++step)
      sum.results[step] =
          at(operands[static_cast<std::size_t>(send_order(count(), rank, step))].d, output_bytes(rows.begin));
  } else {
    sum.results[0] = operands[static_cast<std::size_t>(rank)].d;
  }
  ok(static_cast<cudaError_t>(::tessera::sum_shard(operation(rank), sum, stream)));
}

void GemmCollective::State::launch(int rank, Step const& step, std::vector<Operands> const& operands,
                                   cudaStream_t main) {
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  auto const& one = ranks[static_cast<std::size_t>(rank)];
  auto* const stream = step.side ? one.side->get() : main;
  auto const done = [](int error) { ok(static_cast<cudaError_t>(error)); };
  switch (step.act) {
    case Act::multiply:
    case Act::add: return multiply(rank, step, operands, stream);
    case Act::copy: return copy(rank, step, operands, stream);
    case Act::exchange_words: return sum_of_words(rank, mine, stream);
    case Act::fuse: return fused(rank, mine, stream);
    case Act::sum_shard: return sum_of_shard(rank, operands, stream);
    case Act::begin: return done(begin_together(operation(rank), stream));
    case Act::finish: return done(meet_done(operation(rank), stream));
    case Act::tell: return done(send_arrived(operation(rank), step.peer, step.part, stream));
    case Act::await: return done(await_arrived(operation(rank), step.peer, step.part, stream));
    case Act::fork: return one.fork->put(main, one.side->get());
    case Act::join: return one.join->put(one.side->get(), main);
  }
}

void GemmCollective::State::before_library(int rank, Operands const& mine, cudaStream_t stream) {
  if (problem.collective != Collective::all_gather)
    product(rank, problem.rows, {mine.a, mine.b, partial(rank)}, {}, stream);
  else if (problem.rows % count() != 0)
    ok(cudaMemcpyAsync(sent(rank, 0), mine.a, input_bytes(shard(rank).rows()), cudaMemcpyDeviceToDevice,
                       stream));
}

void GemmCollective::State::call_library(int rank, Operands const& mine, cudaStream_t stream) const {
  auto const kind = problem.type == ElementType::bf16 ? gpu::Nccl::Type::bf16 : gpu::Nccl::Type::fp16;
  bool const padded = problem.rows % count() != 0;
  auto const each = static_cast<std::size_t>(slot_elements(problem));
  switch (problem.collective) {
    case Collective::all_reduce:
      nccl->all_reduce(rank, partial(rank), mine.d, output_bytes(problem.rows) / k_element, kind, stream);
      break;
    case Collective::reduce_scatter:
      nccl->reduce_scatter(rank, partial(rank), padded ? sent(rank, 0) : mine.d, each, kind, stream);
      break;
    case Collective::all_gather:
      nccl->all_gather(rank, padded ? sent(rank, 0) : mine.a, slot(rank, 0), each, kind, stream);
      break;
  }
}

void GemmCollective::State::after_library(int rank, Operands const& mine, cudaStream_t stream) {
  if (problem.collective == Collective::all_gather)
    product(rank, problem.rows, {slot(rank, 0), mine.b, mine.d}, {}, stream);
  else if (problem.collective == Collective::reduce_scatter && problem.rows % count() != 0)
    ok(cudaMemcpyAsync(mine.d, sent(rank, 0), output_bytes(shard(rank).rows()), cudaMemcpyDeviceToDevice,
                       stream));
}

void GemmCollective::State::enqueue(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
  Select const current(group->device(rank));
  auto captured = cudaStreamCaptureStatusNone;
  ok(cudaStreamIsCapturing(stream, &captured));
  ranks[static_cast<std::size_t>(rank)].told->launched(captured != cudaStreamCaptureStatusNone);
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  if (way != Way::sequential) {
    for (auto const& step : ranks[static_cast<std::size_t>(rank)].steps) launch(rank, step, operands, stream);
    return;
  }
  before_library(rank, mine, stream);
  if (group->of_processes()) {
    auto status = cudaStreamCaptureStatusNone;
    ok(cudaStreamIsCapturing(stream, &status));
    if (status == cudaStreamCaptureStatusNone)
      ok(cudaEventRecord(ranks[static_cast<std::size_t>(rank)].before_library->get(), stream));
  }
  call_library(rank, mine, stream);
  after_library(rank, mine, stream);
}

void GemmCollective::State::enqueue_all(std::vector<Operands> const& operands,
                                        std::vector<cudaStream_t> const& streams) {
  auto const each = [&](auto const& act) {
    auto stream = streams.begin();
    for (int const rank : group->here()) {
      Select const current(group->device(rank));
      act(rank, operands[static_cast<std::size_t>(rank)], *stream++);
    }
  };
  if (way != Way::sequential) {
    each([&](int rank, Operands const&, cudaStream_t stream) { enqueue(rank, operands, stream); });
    return;
  }
  each([&](int rank, Operands const& mine, cudaStream_t stream) { before_library(rank, mine, stream); });
  gpu::Nccl::Group calls(*nccl);
  each([&](int rank, Operands const& mine, cudaStream_t stream) { call_library(rank, mine, stream); });
  calls.end();
  each([&](int rank, Operands const& mine, cudaStream_t stream) { after_library(rank, mine, stream); });
}

void GemmCollective::State::prepare(std::vector<Operands> const& operands) {
  for (int const rank : group->here()) {
    if (way != Way::words) return;
    Select const current(group->device(rank));
    auto const& mine = operands[static_cast<std::size_t>(rank)];
    must(pieces.at(problem.rows).prepare({mine.a, mine.b, partial(rank)}));
  }
}

}  // namespace tessera::gemm_collectives
