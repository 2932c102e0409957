// Cluster launch control on a CPU: clusters that have not run yet are cancelled from the first to the last.
#pragma once
#include "tiles.cuh"

namespace tiles {

struct alignas(16) Answer {
  u32 words[4];
};

// Where an answer lies, as it is noted: behind shared memory, and 512 bytes apart, the unit of the model checker.
inline long noted_place(const Answer* answer, int rank) {
  return ((long)rank << 20) + (1 << 18) + (fibers::offset(answer) / 16 % 256) * 512;
}

template <int Blocks>
void try_cancel_cluster(Answer& answer, Barrier& barrier) {
  if (Blocks == 2 && fibers::now->block != 0) fprintf(stderr, "the second block asks as well\n"), abort();
  const auto at = std::make_shared<std::vector<std::pair<Answer*, Barrier*>>>();
  for (int i = 0; i < Blocks; i++) {
    const int rank = Blocks == 2 ? i : fibers::now->block;
    fibers::note(fibers::kLoad, offset_in(rank, &barrier), sizeof(Answer), noted_place(&answer, rank));
    at->push_back({&fibers::of_rank(&answer, rank), &fibers::of_rank(&barrier, rank)});
  }
  fibers::later(fibers::loads, [=] {
    const int first = fibers::cancel();
    for (const auto& [to, arrived] : *at) *to = {{(u32)first, first >= 0, 0, 0}}, land(*arrived, sizeof(Answer));
  });
}

inline int first_block_of(const Answer& answer) {
  fibers::note(fibers::kLook, noted_place(&answer, fibers::now->block), sizeof(Answer));
  if (answer.words[1] > 1) fprintf(stderr, "an answer is read that nobody gave\n"), abort();
  return answer.words[1] ? (int)answer.words[0] : -1;
}

}  // namespace tiles
