#include "eval/quality/logit_stream.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "core/machine/thread_pool.h"

namespace nibble::eval {
namespace {

struct Abandoned {};  // unwinds the forward pass of a stream that nobody reads any more

}  // namespace

struct LogitStream::Exchange {
  enum class Turn { kProducer, kConsumer, kAbandoned };

  std::mutex mutex;
  std::condition_variable changed;
  Turn turn = Turn::kProducer;
  MatrixView<const float> chunk;  // the consumer's while it is its turn
  std::size_t used = 0;           // rows of it handed out
  bool ended = false;
  std::exception_ptr failure;
  std::thread producer;

  // On the producer's thread: passes a chunk over and returns when it is used up.
  void offer(MatrixView<const float> logits) {
    std::unique_lock lock(mutex);
    chunk = logits;
    used = 0;
    if (turn != Turn::kAbandoned) turn = Turn::kConsumer;
    changed.notify_all();
    changed.wait(lock, [&] { return turn != Turn::kConsumer; });
    if (turn == Turn::kAbandoned) throw Abandoned();
  }

  void finish(std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    ended = true;
    failure = std::move(error);
    chunk = {};
    used = 0;
    if (turn != Turn::kAbandoned) turn = Turn::kConsumer;
    changed.notify_all();
  }

  // On the consumer's: waits for a chunk, or the end.
  void await() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return turn == Turn::kConsumer; });
  }
  // Lets the producer make the next one.
  void proceed() {
    const std::lock_guard lock(mutex);
    turn = Turn::kProducer;
    changed.notify_all();
  }
};

LogitStream::LogitStream(const LogitMaker& make, const WindowBatch& batch, std::size_t first)
    : exchange_(std::make_unique<Exchange>()) {
  exchange_->producer =
      std::thread([&make, &batch, first, exchange = exchange_.get(), threads = LentThreads::of_this_thread()] {
        const LentThreads lent(threads);
        std::exception_ptr error;
        try {
          make(batch, first, [&](std::size_t, MatrixView<const float> logits) { exchange->offer(logits); });
        } catch (const Abandoned&) {
        } catch (...) {
          error = std::current_exception();
        }
        exchange->finish(std::move(error));
      });
  exchange_->await();
}

LogitStream::~LogitStream() {
  {
    const std::lock_guard lock(exchange_->mutex);
    exchange_->turn = Exchange::Turn::kAbandoned;
    exchange_->changed.notify_all();
  }
  exchange_->producer.join();
}

MatrixView<const float> LogitStream::next(std::size_t most) {
  Exchange& exchange = *exchange_;
  if (exchange.used == exchange.chunk.rows() && !exchange.ended) {
    exchange.proceed();
    exchange.await();
  }
  if (exchange.failure) std::rethrow_exception(exchange.failure);
  const std::size_t rows = std::min(most, exchange.chunk.rows() - exchange.used);
  const std::size_t first = exchange.used;
  exchange.used += rows;
  return exchange.chunk.rows_slice(first, rows);
}

}  // namespace nibble::eval
