// Fits y = W x by gradient descent: the chain is text, the arrays are this program's.
//
//     c++ regression.cpp $(pkg-config --cflags --libs ckptc) && ./a.out
#include <ckptc.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// Turns a status into an exception.
struct Check {
	ckptc_error error{};
	void operator()(int status) const
	{
		if (status)
			throw std::runtime_error(error.message);
	}
};

struct Free {
	void operator()(ckptc_chain *chain) const { ckptc_chain_free(chain); }
	void operator()(ckptc_result *result) const { ckptc_result_free(result); }
};
using Chain = std::unique_ptr<ckptc_chain, Free>;
using Result = std::unique_ptr<ckptc_result, Free>;

static ckptc_array array(const std::vector<double> &values, std::initializer_list<int64_t> shape)
{
	ckptc_array made{};
	made.dtype = CKPTC_F64;
	for (int64_t extent : shape)
		made.shape[made.ndim++] = extent;
	made.data = values.data();
	return made;
}

int main()
try {
	const std::string text = "param W; const y; matmul W; mse y";
	const std::vector<double> x{1, 0, 0, 1, 1, 1, 2, -1}, y{3, 5, 8, 1};
	std::vector<double> W{0, 0};
	Check check;
	ckptc_chain *made = nullptr;
	check(ckptc_chain_new(&made, text.data(), text.size(), nullptr, &check.error));
	const Chain chain(made);
	const ckptc_array in = array(x, {4, 2}), of_W = array(W, {2, 1}), of_y = array(y, {4, 1});
	check(ckptc_chain_bind(made, "W", &of_W, &check.error));
	check(ckptc_chain_bind(made, "y", &of_y, &check.error));
	ckptc_run_options options{};
	options.want_value = 1;
	options.no_gradient = 1;
	for (int i = 0; i < 200; i++) {
		ckptc_result *run = nullptr;
		check(ckptc_grad(&run, made, &in, &options, &check.error));
		const Result result(run);
		ckptc_array loss, slope;
		ckptc_result_value(run, &loss);
		check(ckptc_result_param(run, "W", &slope));
		for (size_t k = 0; k < W.size(); k++)
			W[k] -= 0.2 * static_cast<const double *>(slope.data)[k];
		if (i % 50 == 0)
			std::printf("loss %.4f\n", *static_cast<const double *>(loss.data));
	}
	std::printf("W %.4f %.4f\n", W[0], W[1]);
} catch (const std::exception &error) {
	std::fprintf(stderr, "regression: %s\n", error.what());
	return 1;
}
