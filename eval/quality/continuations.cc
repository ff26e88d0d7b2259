#include "eval/quality/continuations.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "eval/quality/perplexity.h"
#include "model/transformer/cache/state_cache.h"

namespace nibble::eval {
namespace {

using Tokens = std::span<const TokenId>;

// A context this long, and this much longer than its endings, is worth keys and values of its own.
constexpr std::size_t kLeastShared = 32, kSharedPerEnding = 2;

/// One question as it is run.
struct Question {
  std::vector<TokenId> input;    ///< everything but the continuation's last token, the newest of it
  std::vector<TokenId> targets;  ///< the continuation: predicted by the last rows of `input`
  std::size_t index = 0;

  std::size_t first_row() const { return input.size() - targets.size(); }
};

Question question_of(const Continuation& asked, std::size_t index, std::size_t vocabulary, std::size_t max_tokens) {
  NIBBLE_REQUIRE(!asked.context.empty() && !asked.continuation.empty(), InvalidArgument,
                 "continuation {}: expected at least one token of context and one to score, got {} and {}", index,
                 asked.context.size(), asked.continuation.size());
  NIBBLE_REQUIRE(asked.continuation.size() <= max_tokens, InvalidArgument,
                 "continuation {}: {} tokens to score do not fit into {}; cut it", index, asked.continuation.size(),
                 max_tokens);
  Question question{.input = asked.context, .targets = asked.continuation, .index = index};
  question.input.insert(question.input.end(), asked.continuation.begin(), asked.continuation.end());
  for (const TokenId id : question.input)
    NIBBLE_REQUIRE(id < vocabulary, InvalidArgument, "continuation {}: token id {} is outside the vocabulary of {}",
                   index, id, vocabulary);
  question.input.pop_back();
  if (question.input.size() > max_tokens)
    question.input.erase(question.input.begin(), question.input.end() - static_cast<std::ptrdiff_t>(max_tokens));
  return question;
}

bool begins_with(Tokens text, Tokens beginning) {
  return beginning.size() <= text.size() && std::equal(beginning.begin(), beginning.end(), text.begin());
}

std::size_t common_beginning(Tokens a, Tokens b) {
  const auto end = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(end), b.begin()).first - a.begin());
}

/// A text that is run, and the questions that its rows answer: those whose input is its beginning.
struct Run {
  std::vector<const Question*> questions;  ///< the longest first

  Tokens input() const { return questions.front()->input; }
  std::size_t first_row() const {
    std::size_t first = input().size();
    for (const Question* question : questions) first = std::min(first, question->first_row());
    return first;
  }
};

class Scorer {
 public:
  Scorer(const model::Model& model, const ContinuationOptions& options, std::size_t questions)
      : model_(model), options_(options) {
    result_.scores.resize(questions);
    for (ContinuationScore& score : result_.scores) score.greedy = true;
  }

  /// All of `runs` at once; rows before the first that answers something make no logits.
  void run_batch(std::span<const Run> runs) {
    std::vector<TokenId> tokens;
    std::vector<std::size_t> starts{0}, rows;
    std::vector<std::pair<std::size_t, std::size_t>> owners;  // of each row: run, row within it
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const Tokens input = runs[r].input();
      for (std::size_t row = runs[r].first_row(); row < input.size(); ++row) {
        rows.push_back(tokens.size() + row);
        owners.emplace_back(r, row);
      }
      tokens.insert(tokens.end(), input.begin(), input.end());
      starts.push_back(tokens.size());
    }
    std::size_t next = 0;
    model_.forward(
        {tokens, starts}, rows,
        [&](std::span<const std::size_t> handed, MatrixView<const float> logits) {
          for (std::size_t i = 0; i < handed.size(); ++i, ++next)
            score(runs[owners[next].first], owners[next].second, logits.row(i));
        },
        options_.forward);
    result_.tokens_run += tokens.size();
    for (const Run& run : runs) report(run);
  }

  /// Runs that begin with the same `shared` tokens, one after the other behind those.
  void run_shared(std::span<const Run> runs, std::size_t shared) {
    std::size_t longest = 0;
    for (const Run& run : runs) longest = std::max(longest, run.input().size());
    model::StateCache<float, float> context(model_.architecture(), longest), work(model_.architecture(), longest);
    model_.extend(
        runs.front().input().first(shared), context, {}, [](auto, auto) {}, options_.forward);
    context.advance(shared);
    result_.tokens_run += shared;
    for (const Run& run : runs) {
      work.copy_from(context);
      const Tokens ending = run.input().subspan(shared);
      std::vector<std::size_t> rows(ending.size());
      std::iota(rows.begin(), rows.end(), std::size_t{0});
      model_.extend(
          ending, work, rows,
          [&](std::span<const std::size_t> handed, MatrixView<const float> logits) {
            for (std::size_t i = 0; i < handed.size(); ++i) score(run, shared + handed[i], logits.row(i));
          },
          options_.forward);
      result_.tokens_run += ending.size();
      report(run);
    }
  }

  ContinuationResult& result() { return result_; }

 private:
  void score(const Run& run, std::size_t row, std::span<const float> logits) {
    std::optional<TokenId> largest;
    for (const Question* question : run.questions) {
      if (row < question->first_row() || row >= question->input.size()) continue;
      if (!largest) largest = static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      const TokenId target = question->targets[row - question->first_row()];
      ContinuationScore& score = result_.scores[question->index];
      score.log_likelihood -= negative_log_likelihood(logits, target);
      score.greedy = score.greedy && target == *largest;
    }
  }
  void report(const Run& run) {
    done_ += run.questions.size();
    if (options_.progress)
      options_.progress(
          {"continuations", static_cast<double>(done_), static_cast<double>(result_.scores.size()), "continuations"});
  }

  const model::Model& model_;
  const ContinuationOptions& options_;
  ContinuationResult result_;
  std::size_t done_ = 0;
};

/// Sorted questions as runs: a question that is the beginning of the next one's input joins it.
std::vector<Run> runs_of(const std::vector<Question>& sorted) {
  std::vector<Run> runs;
  for (auto question = sorted.rbegin(); question != sorted.rend(); ++question) {  // a beginning sorts before its text
    if (!runs.empty() && begins_with(runs.back().input(), question->input)) {
      runs.back().questions.push_back(&*question);
    } else {
      runs.push_back({{&*question}});
    }
  }
  return runs;
}

/// How many runs from `first` on share a context worth keeping, and how much of it. Rows that answer are not shared.
std::pair<std::size_t, std::size_t> shared_from(const std::vector<Run>& runs, std::size_t first) {
  std::size_t shared = runs[first].first_row(), count = 1;
  for (std::size_t next = first + 1; next < runs.size(); ++next) {
    const std::size_t common =
        std::min({shared, runs[next].first_row(), common_beginning(runs[first].input(), runs[next].input())});
    const std::size_t ending = std::max(runs[first].input().size(), runs[next].input().size()) - common;
    if (common < kLeastShared || common < kSharedPerEnding * ending) break;
    shared = common;
    ++count;
  }
  return {count, shared};
}

}  // namespace

ContinuationResult score_continuations(const model::Model& model, std::span<const Continuation> questions,
                                       const ContinuationOptions& options) {
  const model::Architecture& architecture = model.architecture();
  const std::size_t max_tokens = options.max_tokens > 0 ? options.max_tokens : architecture.max_positions;
  NIBBLE_REQUIRE(max_tokens <= architecture.position_limit(), InvalidArgument,
                 "continuations: {} tokens, but the model has learned {} positions", max_tokens,
                 architecture.position_limit());
  std::vector<Question> sorted;
  for (std::size_t i = 0; i < questions.size(); ++i)
    sorted.push_back(question_of(questions[i], i, architecture.vocabulary, max_tokens));
  std::sort(sorted.begin(), sorted.end(), [](const Question& a, const Question& b) {
    return std::tie(a.input, a.index) < std::tie(b.input, b.index);
  });

  Scorer scorer(model, options, questions.size());
  const bool can_share = !model::frequencies_follow_length(architecture);
  std::vector<Run> runs = runs_of(sorted), alone;
  for (std::size_t first = 0; first < runs.size();) {
    const auto [count, shared] = can_share ? shared_from(runs, first) : std::pair<std::size_t, std::size_t>{1, 0};
    if (count > 1) {
      scorer.run_shared(std::span(runs).subspan(first, count), shared);
    } else {
      alone.push_back(std::move(runs[first]));
    }
    first += count;
  }
  // Longest first: what does not fit into memory shows at once.
  std::stable_sort(alone.begin(), alone.end(),
                   [](const Run& a, const Run& b) { return a.input().size() > b.input().size(); });
  for (std::size_t first = 0; first < alone.size();) {
    std::size_t count = 0, tokens = 0;
    while (first + count < alone.size() &&
           (count == 0 || tokens + alone[first + count].input().size() <= options.batch_tokens))
      tokens += alone[first + count++].input().size();
    scorer.run_batch(std::span(alone).subspan(first, count));
    first += count;
  }
  return std::move(scorer.result());
}

}  // namespace nibble::eval
