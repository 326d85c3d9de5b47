/*
 * The operations of test_edges_lines: reductions, operations along an axis and losses. X(NAME, SHAPE, EXPONENTIAL, TRUTH) for
 * each. All other general operations are sums of products, and are in test_edges_linear.
 */
#ifndef TESTS_EDGE_LINES_H
#define TESTS_EDGE_LINES_H

/* clang-format off */
#define EDGE_LINES(X) \
	X(sum, REDUCES, false, true_sum) \
	X(mean, REDUCES, false, true_sum) \
	X(var, REDUCES, false, true_variance) \
	X(std, REDUCES, false, true_variance) \
	X(amax, REDUCES, false, true_extreme) \
	X(amin, REDUCES, false, true_extreme) \
	X(prod, REDUCES, false, true_product) \
	X(logsumexp, REDUCES, true, true_logsumexp) \
	X(norm, REDUCES, false, true_norm) \
	X(softmax, ALONG, true, true_softmax) \
	X(log_softmax, ALONG, true, true_log_softmax) \
	X(layernorm, ALONG, false, true_normalization) \
	X(rmsnorm, ALONG, false, true_normalization) \
	X(cumsum, ALONG, false, true_cumsum) \
	X(mse, LOSES, false, true_difference) \
	X(mae, LOSES, false, true_difference) \
	X(huber, LOSES, false, true_difference) \
	X(cross_entropy, LOSES, true, true_cross_entropy)
/* clang-format on */

#endif
