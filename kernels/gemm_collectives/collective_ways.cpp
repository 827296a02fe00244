// SPDX-License-Identifier: Apache-2.0
// The ways: what a rank launches, in which order, and what copy engines send beside it.
#include "collective_state.hpp"

namespace tessera::gemm_collectives {

void GemmCollective::State::product(int rank, int rows, void const* a, void const* b, void* d, bool lets_next,
                                    bool early, cudaStream_t stream) {
  auto const& piece = pieces.at(rows);
  must(piece.run({a, b, d}, at(own->at(rank), workspace_at), lets_next && piece.chains(),
                 early && piece.chains(), stream));
}

void GemmCollective::State::adding_product(int rank, int rows, PieceOperands const& operands,
                                           cudaStream_t stream) {
  must(adding.at(rows).run(operands, at(own->at(rank), workspace_at), false, false, stream));
}

void GemmCollective::State::by_words(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  product(rank, problem.rows, mine.a, mine.b, partial(rank), false, false, stream);
  WordsSum sum;
  sum.partial = partial(rank);
  sum.sum = mine.d;
  sum.elements = 1LL * problem.rows * problem.columns;
  for (int peer = 0; peer < count(); ++peer) sum.packets[peer] = at(shared->at(peer), shared_at);
  sum.type = type();
  ok(static_cast<cudaError_t>(all_reduce_words(operation(rank), sum, true, stream)));
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

void GemmCollective::State::by_shards(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  auto const& one = ranks[static_cast<std::size_t>(rank)];
  bool first = true, copied = false;
  for (int step = 0; step < count(); ++step) {
    int const owner = send_order(count(), rank, step);
    auto const rows = shard(owner);
    if (rows.rows() == 0) continue;
    bool const copies = way == Way::copy && owner != rank;
    void* const to = copies ? sent(rank, owner) : slot(owner, rank);
    product(rank, rows.rows(), at(mine.a, input_bytes(rows.begin)), mine.b, to, owner != rank, !first,
            stream);
    first = false;
    if (!copies) continue;
    copied = true;
    one.fork->put(stream, one.side->get());
    ok(cudaMemcpyAsync(slot(owner, rank), to, output_bytes(rows.rows()), cudaMemcpyDefault, one.side->get()));
  }
  if (copied) one.join->put(one.side->get(), stream);
  sum_of_shard(rank, operands, stream);
}

void GemmCollective::State::by_adding(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  auto const& one = ranks[static_cast<std::size_t>(rank)];
  auto const side = one.side->get();
  auto const words = operation(rank);
  int const peer = send_order(count(), rank, 0);
  one.fork->put(stream, side);
  // A peer that has begun has read what it was sent the launch before.
  ok(static_cast<cudaError_t>(begin_together(words, side)));
  for (int n = 0; n < parts; ++n) {
    auto const part = part_of(peer, n);
    if (part.rows() == 0) continue;
    std::size_t const to = output_bytes(part.begin - shard(peer).begin);
    product(rank, part.rows(), at(mine.a, input_bytes(part.begin)), mine.b, at(sent(rank, peer), to), false,
            false, stream);
    one.fork->put(stream, side);
    ok(cudaMemcpyAsync(at(slot(peer, rank), to), at(sent(rank, peer), to), output_bytes(part.rows()),
                       cudaMemcpyDefault, side));
    ok(static_cast<cudaError_t>(send_arrived(words, peer, n, side)));
  }
  bool const shares = problem.collective == Collective::all_reduce;
  int const first = shares ? 0 : shard(rank).begin;
  for (int n = 0; n < parts; ++n) {
    auto const part = part_of(rank, n);
    if (part.rows() == 0) continue;
    ok(static_cast<cudaError_t>(await_arrived(words, peer, n, stream)));
    void* const to = at(mine.d, output_bytes(part.begin - first));
    void const* const come = at(slot(rank, peer), output_bytes(part.begin - shard(rank).begin));
    adding_product(rank, part.rows(), {at(mine.a, input_bytes(part.begin)), mine.b, to, come}, stream);
    if (!shares) continue;
    one.fork->put(stream, side);
    ok(cudaMemcpyAsync(at(operands[static_cast<std::size_t>(peer)].d, output_bytes(part.begin)), to,
                       output_bytes(part.rows()), cudaMemcpyDefault, side));
  }
  one.join->put(side, stream);
  if (shares) ok(static_cast<cudaError_t>(meet_done(words, stream)));
}

void GemmCollective::State::by_gathering(int rank, std::vector<Operands> const& operands,
                                         cudaStream_t stream) {
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  auto const& one = ranks[static_cast<std::size_t>(rank)];
  auto const side = one.side->get();
  one.fork->put(stream, side);
  // A peer that has begun has read what it was sent the launch before.
  ok(static_cast<cudaError_t>(begin_together(operation(rank), side)));
  auto const own_rows = shard(rank);
  for (int step = 0; step + 1 < count() && own_rows.rows() > 0; ++step) {
    int const peer = send_order(count(), rank, step);
    // Not cudaMemcpyPeerAsync(), which cannot be captured.
    ok(cudaMemcpyAsync(slot(peer, rank), mine.a, input_bytes(own_rows.rows()), cudaMemcpyDefault, side));
    ok(static_cast<cudaError_t>(send_arrived(operation(rank), peer, 0, side)));
  }
  for (int step = 0; step < count(); ++step) {
    int const source = receive_order(count(), rank, step);
    auto const rows = shard(source);
    if (rows.rows() == 0) continue;
    if (source != rank) ok(static_cast<cudaError_t>(await_arrived(operation(rank), source, 0, stream)));
    product(rank, rows.rows(), source == rank ? mine.a : slot(rank, source), mine.b,
            at(mine.d, output_bytes(rows.begin)), false, false, stream);
  }
  one.join->put(side, stream);
}

void GemmCollective::State::before_library(int rank, Operands const& mine, cudaStream_t stream) {
  if (problem.collective != Collective::all_gather)
    product(rank, problem.rows, mine.a, mine.b, partial(rank), false, false, stream);
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
    product(rank, problem.rows, slot(rank, 0), mine.b, mine.d, false, false, stream);
  else if (problem.collective == Collective::reduce_scatter && problem.rows % count() != 0)
    ok(cudaMemcpyAsync(mine.d, sent(rank, 0), output_bytes(shard(rank).rows()), cudaMemcpyDeviceToDevice,
                       stream));
}

void GemmCollective::State::enqueue(int rank, std::vector<Operands> const& operands, cudaStream_t stream) {
  Select const current(group->device(rank));
  ranks[static_cast<std::size_t>(rank)].told->launched();
  auto const& mine = operands[static_cast<std::size_t>(rank)];
  if (way == Way::words) {
    by_words(rank, operands, stream);
  } else if (way == Way::sequential) {
    before_library(rank, mine, stream);
    if (group->of_processes()) {
      auto status = cudaStreamCaptureStatusNone;
      ok(cudaStreamIsCapturing(stream, &status));
      if (status == cudaStreamCaptureStatusNone)
        ok(cudaEventRecord(ranks[static_cast<std::size_t>(rank)].before_library->get(), stream));
    }
    call_library(rank, mine, stream);
    after_library(rank, mine, stream);
  } else if (way == Way::add) {
    by_adding(rank, operands, stream);
  } else if (problem.collective == Collective::all_gather) {
    by_gathering(rank, operands, stream);
  } else {
    by_shards(rank, operands, stream);
  }
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
