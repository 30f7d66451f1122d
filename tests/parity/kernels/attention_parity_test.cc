#include <gtest/gtest.h>

#include "tests/parity/kernels/attention_rig.h"

namespace tandem::op_cases {
namespace {

TEST(AttentionParity, AgreesWithReference) {
  for (const std::string& name : runnable_op_sets()) {
    for (const AttentionCase& shape : attention_cases()) {
      SCOPED_TRACE(name + " " + shape.name());
      std::vector<SequenceInput> inputs = {random_sequence(shape, 1, 1),
                                           random_sequence(shape, 64, 2),
                                           random_sequence(shape, 131, 3)};
      AttentionRig expected("reference", 1, shape, inputs);
      AttentionRig actual(name, 2, shape, inputs);
      expected.run(64);
      actual.run(64);
      for (size_t s = 0; s < inputs.size(); ++s) {
        for (size_t i = 0; i < expected.out(s).size(); ++i) {
          ASSERT_NEAR(actual.out(s)[i], expected.out(s)[i], 2e-5) << s << " at " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::op_cases
