/*
 * Samples of the general operations, each an operation with its arguments and shapes that fit, and how to run one on blocks of
 * exactly its size.
 */
#ifndef TESTS_SAMPLES_H
#define TESTS_SAMPLES_H

#include "ops/general.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "base/arena.h"

struct sample {
	const char *text;
	struct shape v, a;
};
#define SHAPE0                                                                                                         \
	{                                                                                                                  \
		0                                                                                                              \
	}
#define SHAPE(N, ...)                                                                                                  \
	{                                                                                                                  \
		N, { __VA_ARGS__ }                                                                                             \
	}

static const struct sample samples[] = {
	{"matmul", SHAPE(2, 3, 4), SHAPE(2, 4, 5)},
	{"matmul", SHAPE(1, 4), SHAPE(1, 4)},
	{"matmul", SHAPE(1, 4), SHAPE(2, 4, 3)},
	{"matmul", SHAPE(2, 3, 4), SHAPE(1, 4)},
	{"matmul", SHAPE(3, 2, 3, 4), SHAPE(2, 4, 5)},
	{"matmul", SHAPE(3, 2, 3, 4), SHAPE(3, 2, 4, 5)},
	{"matmul", SHAPE(3, 2, 3, 4), SHAPE(3, 1, 4, 5)},
	{"matmul", SHAPE(3, 1, 3, 4), SHAPE(3, 2, 4, 5)},
	{"matmul", SHAPE(2, 3, 4), SHAPE(4, 2, 1, 4, 2)},
	{"matmul", SHAPE(4, 2, 1, 3, 4), SHAPE(4, 1, 3, 4, 2)},
	{"matmul", SHAPE(1, 4), SHAPE(3, 2, 4, 3)},
	{"matmul", SHAPE(3, 2, 3, 4), SHAPE(1, 4)},
	{"matmul", SHAPE(2, 40, 70), SHAPE(2, 70, 50)},
	{"linear", SHAPE(2, 3, 4), SHAPE(2, 5, 4)},
	{"linear", SHAPE(1, 4), SHAPE(2, 5, 4)},
	{"linear", SHAPE(2, 3, 4), SHAPE(1, 4)},
	{"linear", SHAPE(3, 2, 3, 4), SHAPE(2, 5, 4)},
	{"linear", SHAPE(3, 2, 3, 4), SHAPE(3, 2, 5, 4)},
	{"dot", SHAPE(1, 4), SHAPE(2, 5, 4)},
	{"dot", SHAPE(2, 4, 3), SHAPE(2, 5, 4)},
	{"dot", SHAPE(1, 4), SHAPE(1, 4)},
	{"dot", SHAPE(2, 4, 3), SHAPE(1, 4)},
	{"dot", SHAPE(3, 2, 4, 3), SHAPE(2, 5, 4)},
	{"dot", SHAPE(3, 2, 4, 3), SHAPE(3, 2, 5, 4)},
	{"transpose", SHAPE(1, 4), SHAPE0},
	{"transpose", SHAPE(2, 35, 40), SHAPE0},
	{"transpose", SHAPE(4, 2, 3, 4, 5), SHAPE0},
	{"transpose axes=0,2,1", SHAPE(3, 3, 5, 18), SHAPE0},
	{"transpose axes=1,2,0", SHAPE(3, 3, 5, 18), SHAPE0},
	{"transpose axes=-2,0,-1,1", SHAPE(4, 2, 3, 4, 5), SHAPE0},
	{"transpose axes=0,2,1,3", SHAPE(4, 2, 3, 4, 5), SHAPE0},
#define REDUCE(NAME)                                                                                                   \
	{NAME, SHAPE(2, 3, 4), SHAPE0}, {NAME, SHAPE0, SHAPE0}, {NAME " axis=0", SHAPE(2, 3, 20), SHAPE0},                 \
		{NAME " axis=-1", SHAPE(2, 3, 33), SHAPE0}, {NAME " axis=1", SHAPE(3, 2, 3, 4), SHAPE0},                       \
		{NAME " axis=0,2", SHAPE(3, 2, 3, 4), SHAPE0}, {NAME " axis=0,2 keepdims=true", SHAPE(4, 2, 3, 2, 2), SHAPE0}, \
		{NAME " axis=1,3", SHAPE(4, 2, 3, 2, 2), SHAPE0}, {NAME " axis=1 keepdims=true", SHAPE(2, 3, 4), SHAPE0},      \
	{                                                                                                                  \
		NAME " axis=0", SHAPE(2, 1, 4), SHAPE0                                                                         \
	}
	REDUCE("sum"),
	REDUCE("mean"),
	REDUCE("amax"),
	REDUCE("amin"),
	REDUCE("prod"),
	REDUCE("logsumexp"),
	REDUCE("var"),
	REDUCE("std"),
	REDUCE("norm"),
#define ALONG(NAME)                                                                                                    \
	{NAME, SHAPE(2, 3, 5), SHAPE0}, {NAME " axis=0", SHAPE(2, 3, 5), SHAPE0},                                          \
		{NAME " axis=1", SHAPE(3, 2, 3, 37), SHAPE0},                                                                  \
	{                                                                                                                  \
		NAME, SHAPE(1, 300), SHAPE0                                                                                    \
	}
	ALONG("softmax"),
	ALONG("log_softmax"),
	ALONG("layernorm"),
	ALONG("layernorm eps=0.1"),
	ALONG("rmsnorm"),
	ALONG("cumsum"),
	ALONG("cumprod"),
	ALONG("cummax"),
	ALONG("cummin"),
	ALONG("logcumsumexp"),
	ALONG("sort"),
	ALONG("sort descending=true"),
	{"argsort", SHAPE(2, 3, 5), SHAPE0},
	{"argsort axis=0 descending=true", SHAPE(2, 3, 5), SHAPE0},
	{"argsort axis=1", SHAPE(3, 2, 9, 3), SHAPE0},
	REDUCE("median"),
	REDUCE("any"),
	REDUCE("all"),
	{"quantile 0.3", SHAPE(2, 3, 4), SHAPE0},
	{"quantile 0.75 axis=0,2", SHAPE(3, 2, 3, 4), SHAPE0},
	{"quantile 1 axis=1 keepdims=true", SHAPE(2, 3, 5), SHAPE0},
	{"topk 2", SHAPE(2, 3, 5), SHAPE0},
	{"topk 3 axis=1 largest=false", SHAPE(3, 2, 7, 3), SHAPE0},
	{"topk 20 axis=0", SHAPE(1, 300), SHAPE0},
	{"argtopk 2", SHAPE(2, 3, 5), SHAPE0},
	{"argtopk 3 axis=1 largest=false", SHAPE(3, 2, 7, 3), SHAPE0},
	{"softmax", SHAPE(2, 5, 1100), SHAPE0},
	{"softmax axis=0,1", SHAPE(2, 3, 5), SHAPE0},
	{"softmax axis=0,2", SHAPE(3, 2, 3, 4), SHAPE0},
	{"log_softmax axis=0,2", SHAPE(3, 2, 3, 4), SHAPE0},
	{"layernorm axis=0,2,3", SHAPE(4, 2, 3, 2, 2), SHAPE0},
	{"layernorm axis=-1,1 eps=0.1", SHAPE(3, 2, 3, 4), SHAPE0},
	{"rmsnorm axis=0,2", SHAPE(3, 2, 3, 4), SHAPE0},
	{"groupnorm 2", SHAPE(3, 2, 4, 5), SHAPE0},
	{"groupnorm 3 eps=0.1", SHAPE(2, 4, 6), SHAPE0},
	{"broadcast_to 2,3,4", SHAPE(2, 3, 1), SHAPE0},
	{"broadcast_to 5,4", SHAPE(1, 4), SHAPE0},
	{"broadcast_to 2,3", SHAPE0, SHAPE0},
	{"tile 2", SHAPE(2, 3, 4), SHAPE0},
	{"tile 2,1,3", SHAPE(2, 3, 4), SHAPE0},
	{"tile 3,2", SHAPE(2, 2, 1), SHAPE0},
	{"repeat_each 3", SHAPE(2, 3, 4), SHAPE0},
	{"repeat_each 2 axis=-1", SHAPE(3, 2, 3, 4), SHAPE0},
	{"diag", SHAPE(1, 5), SHAPE0},
	{"diag", SHAPE(2, 3, 5), SHAPE0},
	{"diag", SHAPE(3, 2, 4, 3), SHAPE0},
	{"reshape 2 -1", SHAPE(2, 3, 4), SHAPE0},
	{"flatten", SHAPE(2, 3, 4), SHAPE0},
	{"slice start=1 stop=3", SHAPE(2, 4, 3), SHAPE0},
	{"slice axis=1 start=-1 step=-2", SHAPE(3, 2, 5, 2), SHAPE0},
	{"slice step=-1", SHAPE(1, 5), SHAPE0},
	{"slice axis=-1 start=1 step=2", SHAPE(2, 3, 6), SHAPE0},
	{"slice axis=1 start=1 step=3", SHAPE(2, 4, 7), SHAPE0},
	{"slice axis=1 step=-1", SHAPE(2, 3, 40), SHAPE0},
	{"pad 1 2", SHAPE(2, 3, 2), SHAPE0},
	{"pad 0 2 axis=-1 value=7", SHAPE(2, 3, 2), SHAPE0},
	{"concat", SHAPE(2, 2, 3), SHAPE(2, 4, 3)},
	{"concat axis=1", SHAPE(3, 2, 3, 2), SHAPE(3, 2, 1, 2)},
	{"stack", SHAPE(2, 2, 3), SHAPE(2, 2, 3)},
	{"stack axis=1", SHAPE(2, 2, 3), SHAPE(2, 2, 3)},
	{"stack axis=-1", SHAPE(2, 2, 3), SHAPE(2, 2, 3)},
	{"stack", SHAPE0, SHAPE0},
	{"expand_dims 1", SHAPE(2, 2, 3), SHAPE0},
	{"expand_dims axis=-1", SHAPE(1, 4), SHAPE0},
	{"squeeze", SHAPE(3, 1, 3, 1), SHAPE0},
	{"squeeze axis=-1", SHAPE(3, 1, 3, 1), SHAPE0},
	{"squeeze axis=1", SHAPE(3, 4, 1, 5), SHAPE0},
	{"flip", SHAPE(3, 2, 3, 2), SHAPE0},
	{"flip", SHAPE0, SHAPE0},
	{"flip axis=0", SHAPE(2, 4, 3), SHAPE0},
	{"flip axis=-1", SHAPE(2, 4, 19), SHAPE0},
	{"flip axis=0,2", SHAPE(4, 2, 3, 4, 2), SHAPE0},
	{"flip axis=1", SHAPE(3, 2, 3, 2), SHAPE0},
	{"tril", SHAPE(2, 4, 4), SHAPE0},
	{"tril -1", SHAPE(2, 5, 3), SHAPE0},
	{"tril k=2", SHAPE(3, 2, 3, 6), SHAPE0},
	{"tril 9", SHAPE(2, 3, 3), SHAPE0},
	{"triu", SHAPE(2, 4, 4), SHAPE0},
	{"triu 1", SHAPE(2, 3, 5), SHAPE0},
	{"triu k=-2", SHAPE(3, 2, 6, 3), SHAPE0},
	{"triu -9", SHAPE(2, 3, 3), SHAPE0},
	{"roll 1", SHAPE(2, 5, 2), SHAPE0},
	{"roll -7 axis=1", SHAPE(2, 2, 5), SHAPE0},
#define STENCIL(TEXT)                                                                                                  \
	{"laplacian " TEXT, SHAPE(1, 7), SHAPE0}, {"laplacian " TEXT, SHAPE(2, 5, 6), SHAPE0},                             \
		{"laplacian " TEXT, SHAPE(3, 3, 4, 5), SHAPE0}, {"laplacian axes=0 " TEXT, SHAPE(2, 5, 6), SHAPE0},            \
		{"laplacian axes=1 " TEXT, SHAPE(2, 5, 6), SHAPE0}, {"laplacian axes=0,1 " TEXT, SHAPE(3, 3, 4, 2), SHAPE0},   \
		{"laplacian axes=0,2 " TEXT, SHAPE(3, 3, 2, 4), SHAPE0}, {"laplacian " TEXT, SHAPE(2, 1, 3), SHAPE0},          \
		{"laplacian " TEXT, SHAPE(2, 3, 1), SHAPE0}, {"laplacian " TEXT, SHAPE(2, 2, 2), SHAPE0},                      \
		{"laplacian " TEXT, SHAPE(1, 3), SHAPE0},                                                                      \
	{                                                                                                                  \
		"laplacian " TEXT, SHAPE(1, 4), SHAPE0                                                                         \
	}
	STENCIL(""),
	STENCIL("boundary=zero dx=0.5"),
	STENCIL("boundary=reflect dx=2"),
	STENCIL("order=4 dx=0.3"),
	STENCIL("order=8 boundary=zero"),
	STENCIL("order=4 boundary=reflect"),
	STENCIL("order=8 boundary=reflect"),
	{"laplacian dx=0.5,2 order=6", SHAPE(2, 5, 40), SHAPE0},
	{"laplacian axes=1,0 dx=0.5,2", SHAPE(2, 40, 5), SHAPE0},
	{"laplacian order=6 boundary=reflect", SHAPE(1, 60), SHAPE0},
#define WEIGHTED(TEXT)                                                                                                 \
	{"stencil 0.5,-2,3 " TEXT, SHAPE(1, 70), SHAPE0}, {"stencil 0.5,-2,3 axis=1 " TEXT, SHAPE(3, 2, 5, 3), SHAPE0},    \
		{"stencil 1,2,4,-8,16 axis=-1 " TEXT, SHAPE(2, 3, 9), SHAPE0},                                                 \
		{"stencil 1,2,4,-8,16 " TEXT, SHAPE(2, 2, 3), SHAPE0},                                                         \
		{"stencil 1,2,4,-8,16,0.1,0.2 " TEXT, SHAPE(2, 1, 5), SHAPE0},                                                 \
	{                                                                                                                  \
		"stencil 1,2,4,-8,16,0.1,0.2,0.3,0.4 " TEXT, SHAPE(1, 3), SHAPE0                                               \
	}
	WEIGHTED(""),
	WEIGHTED("boundary=zero"),
	WEIGHTED("boundary=reflect"),
	{"conv1d", SHAPE(3, 2, 3, 8), SHAPE(3, 4, 3, 3)},
	{"conv1d stride=2 padding=1", SHAPE(3, 2, 1, 9), SHAPE(3, 2, 1, 4)},
	{"conv1d stride=3 padding=4", SHAPE(3, 1, 2, 5), SHAPE(3, 2, 2, 3)},
	{"conv2d", SHAPE(4, 2, 2, 5, 6), SHAPE(4, 3, 2, 3, 3)},
	{"conv2d stride=2,1 padding=0,2", SHAPE(4, 1, 2, 5, 4), SHAPE(4, 2, 2, 2, 3)},
	{"conv2d stride=1,3 padding=3", SHAPE(4, 2, 1, 3, 4), SHAPE(4, 1, 1, 1, 1)},
	{"conv2d padding=1", SHAPE(4, 1, 1, 20, 19), SHAPE(4, 1, 1, 3, 3)},
	{"conv1d groups=3 dilation=2 padding=1,2", SHAPE(3, 2, 6, 9), SHAPE(3, 3, 2, 3)},
	{"conv1d groups=4 padding=same", SHAPE(3, 2, 4, 9), SHAPE(3, 8, 1, 4)},
	{"conv2d groups=3 stride=2,1 padding=1", SHAPE(4, 2, 3, 6, 7), SHAPE(4, 3, 1, 3, 2)},
	{"conv2d groups=2 stride=3,2 dilation=2,1 padding=2,0,1,3", SHAPE(4, 2, 2, 7, 6), SHAPE(4, 6, 1, 2, 4)},
	{"conv2d groups=2 padding=same", SHAPE(4, 1, 2, 3, 70), SHAPE(4, 2, 1, 3, 3)},
	{"conv2d groups=2 stride=2 padding=1", SHAPE(4, 2, 4, 5, 6), SHAPE(4, 6, 2, 3, 3)},
	{"conv2d dilation=2,3 padding=same", SHAPE(4, 1, 2, 6, 20), SHAPE(4, 2, 2, 2, 3)},
	{"conv_transpose1d", SHAPE(3, 2, 3, 8), SHAPE(3, 3, 4, 3)},
	{"conv_transpose1d stride=3 padding=1,2 output_padding=2 dilation=2", SHAPE(3, 2, 4, 5), SHAPE(3, 4, 2, 3)},
	{"conv_transpose1d groups=4 stride=2 padding=1", SHAPE(3, 2, 4, 5), SHAPE(3, 4, 1, 4)},
	{"conv_transpose2d stride=2,1 padding=1,0 output_padding=1,0", SHAPE(4, 2, 2, 3, 4), SHAPE(4, 2, 3, 3, 2)},
	{"conv_transpose2d groups=2 dilation=1,2 padding=1", SHAPE(4, 1, 4, 4, 3), SHAPE(4, 4, 3, 2, 3)},
#define POOL(NAME)                                                                                                     \
	{NAME "1d 2", SHAPE(3, 2, 3, 9), SHAPE0}, {NAME "1d 3 stride=2 padding=1 ceil=true", SHAPE(2, 2, 8), SHAPE0},      \
		{NAME "1d 5 stride=1 padding=0,2", SHAPE(1, 11), SHAPE0}, {NAME "2d 2", SHAPE(4, 2, 2, 5, 6), SHAPE0},         \
		{NAME "2d 3,2 stride=2,1 padding=1", SHAPE(3, 2, 6, 5), SHAPE0},                                               \
	{                                                                                                                  \
		NAME "2d 3 stride=1 padding=1,0,0,1 ceil=true", SHAPE(2, 5, 40), SHAPE0                                        \
	}
	POOL("maxpool"),
	POOL("avgpool"),
	{"avgpool2d 3 stride=2 padding=1 ceil=true count_padding=false", SHAPE(4, 1, 2, 6, 7), SHAPE0},
	{"upsample 2", SHAPE(3, 2, 3, 5), SHAPE0},
	{"upsample 2,3", SHAPE(4, 2, 1, 3, 4), SHAPE0},
	{"upsample 3 axes=1", SHAPE(3, 2, 3, 5), SHAPE0},
	{"upsample 2 mode=linear", SHAPE(4, 1, 2, 3, 4), SHAPE0},
	{"upsample 3,2 mode=linear align_corners=true", SHAPE(2, 3, 4), SHAPE0},
	{"upsample 1.5,2,2 mode=linear axes=2,0,1", SHAPE(3, 3, 2, 5), SHAPE0},
	{"upsample 0.5 mode=linear axes=0", SHAPE(2, 6, 300), SHAPE0},
	{"upsample 3 mode=linear align_corners=true", SHAPE(1, 1), SHAPE0},
	{"attention", SHAPE(2, 5, 4), SHAPE(2, 6, 4)},
	{"attention causal=true", SHAPE(3, 2, 5, 3), SHAPE(3, 2, 4, 3)},
	{"attention scale=0.7", SHAPE(4, 2, 3, 2, 3), SHAPE(3, 3, 3, 3)},
	{"attention causal=true", SHAPE(2, 70, 3), SHAPE(2, 140, 3)},
	{"attention", SHAPE(3, 1, 3, 2), SHAPE(4, 2, 2, 3, 2)},
	{"dropout 0.3 seed=7", SHAPE(2, 9, 11), SHAPE0},
	{"dropout 0", SHAPE(1, 5), SHAPE0},
#define LOSS(NAME)                                                                                                     \
	{NAME, SHAPE(2, 3, 4), SHAPE(2, 3, 4)}, {NAME, SHAPE(2, 3, 4), SHAPE(1, 4)}, {NAME, SHAPE(1, 4), SHAPE(2, 3, 4)},  \
		{NAME, SHAPE(2, 3, 1), SHAPE(2, 1, 4)}, {NAME, SHAPE(2, 3, 4), SHAPE0}, {NAME, SHAPE0, SHAPE0},                \
	{                                                                                                                  \
		NAME, SHAPE(2, 50, 60), SHAPE(2, 50, 1)                                                                        \
	}
	LOSS("mse"),
	LOSS("mae"),
	LOSS("huber"),
	LOSS("huber delta=0.3"),
	LOSS("mse reduction=sum"),
	LOSS("mae reduction=sum"),
	LOSS("huber delta=0.3 reduction=sum"),
	{"cross_entropy", SHAPE(2, 3, 5), SHAPE(1, 3)},
	{"cross_entropy", SHAPE(1, 5), SHAPE0},
	{"cross_entropy", SHAPE(3, 2, 3, 4), SHAPE(2, 2, 3)},
	{"cross_entropy reduction=sum", SHAPE(3, 2, 3, 4), SHAPE(2, 2, 3)},
	{"nll", SHAPE(2, 3, 5), SHAPE(1, 3)},
	{"nll", SHAPE(1, 5), SHAPE0},
	{"nll axis=1", SHAPE(3, 2, 4, 3), SHAPE(2, 2, 3)},
	{"nll axis=0 ignore=1", SHAPE(2, 4, 30), SHAPE(1, 30)},
	{"cast f64", SHAPE(2, 3, 4), SHAPE0},
	{"take", SHAPE(2, 3, 4), SHAPE(2, 4, 5)},
	{"take", SHAPE(1, 9), SHAPE(1, 4)},
	{"take", SHAPE0, SHAPE(2, 4, 5)},
	{"take axis=1", SHAPE(1, 9), SHAPE(3, 2, 4, 3)},
	{"take axis=-1", SHAPE(2, 3, 2), SHAPE(2, 70, 4)},
	{"take", SHAPE(1, 90), SHAPE(2, 4, 700)},
	{"take_along 0", SHAPE(2, 4, 3), SHAPE(2, 6, 3)},
	{"take_along axis=-1", SHAPE(3, 2, 3, 4), SHAPE(3, 2, 3, 5)},
	{"take_along 1", SHAPE(3, 2, 4, 3), SHAPE(3, 1, 5, 1)},
	{"take_along 1", SHAPE(3, 1, 4, 1), SHAPE(3, 2, 5, 3)},
	{"scatter_add 4", SHAPE(2, 9, 3), SHAPE(1, 9)},
	{"scatter_add 4", SHAPE(2, 5, 3), SHAPE(2, 5, 3)},
	{"scatter_add 5 axis=1", SHAPE(3, 2, 4, 3), SHAPE(1, 4)},
	{"scatter_add 5 axis=-1", SHAPE(1, 3), SHAPE0},
	{"scatter_add 4", SHAPE(2, 90, 70), SHAPE(1, 90)},
	{"one_hot 4", SHAPE(2, 3, 5), SHAPE0},
	{"one_hot 5", SHAPE0, SHAPE0},
	{"argmax", SHAPE(2, 3, 4), SHAPE0},
	{"argmax axis=0", SHAPE(2, 3, 20), SHAPE0},
	{"argmin axis=1 keepdims=true", SHAPE(3, 2, 3, 4), SHAPE0},
	{"argmin", SHAPE0, SHAPE0},
	{"tridiagonal", SHAPE(1, 1), SHAPE(1, 1)},
	{"tridiagonal", SHAPE(1, 9), SHAPE(1, 9)},
	{"tridiagonal", SHAPE(3, 2, 4, 5), SHAPE(3, 2, 4, 5)},
	{"solve", SHAPE(1, 4), SHAPE(2, 4, 4)},
	{"solve", SHAPE(2, 4, 3), SHAPE(2, 4, 4)},
	{"solve", SHAPE(1, 3), SHAPE(3, 2, 3, 3)},
	{"solve", SHAPE(3, 2, 3, 5), SHAPE(2, 3, 3)},
	{"solve", SHAPE(3, 2, 3, 1), SHAPE(3, 2, 3, 3)},
	{"solve", SHAPE(4, 2, 1, 3, 2), SHAPE(3, 3, 3, 3)},
	{"cholesky", SHAPE(2, 4, 4), SHAPE0},
	{"cholesky", SHAPE(3, 2, 3, 3), SHAPE0},
	{"inv", SHAPE(2, 4, 4), SHAPE0},
	{"inv", SHAPE(3, 2, 3, 3), SHAPE0},
	{"logdet", SHAPE(2, 4, 4), SHAPE0},
	{"logdet", SHAPE(3, 2, 3, 3), SHAPE0},
	{"fft", SHAPE(3, 2, 5, 2), SHAPE0},
	{"fft axis=0 norm=ortho", SHAPE(3, 6, 3, 2), SHAPE0},
	{"ifft axis=1", SHAPE(4, 2, 7, 3, 2), SHAPE0},
	{"ifft norm=forward", SHAPE(2, 37, 2), SHAPE0},
	{"fft", SHAPE(2, 288, 2), SHAPE0},
	{"ifft axis=-2", SHAPE(3, 41, 2, 2), SHAPE0},
	{"fft axis=0", SHAPE(3, 297, 1, 2), SHAPE0},
	{"rfft", SHAPE(2, 3, 8), SHAPE0},
	{"rfft axis=0 norm=ortho", SHAPE(2, 9, 3), SHAPE0},
	{"rfft", SHAPE(1, 576), SHAPE0},
	{"rfft axis=1", SHAPE(3, 1, 297, 2), SHAPE0},
	{"rfft norm=forward", SHAPE(1, 74), SHAPE0},
	{"irfft", SHAPE(3, 2, 5, 2), SHAPE0},
	{"irfft n=7 norm=ortho", SHAPE(3, 2, 6, 2), SHAPE0},
	{"irfft axis=0 n=12", SHAPE(3, 4, 3, 2), SHAPE0},
	{"irfft n=576", SHAPE(2, 280, 2), SHAPE0},
	{"irfft axis=0 n=297 norm=forward", SHAPE(3, 170, 2, 2), SHAPE0},
	{"irfft n=74", SHAPE(2, 30, 2), SHAPE0},
	{"cmul", SHAPE(3, 4, 3, 2), SHAPE(2, 3, 2)},
	{"cmul", SHAPE(2, 3, 2), SHAPE(3, 4, 1, 2)},
	{"cmul", SHAPE(2, 15, 2), SHAPE(2, 15, 2)},
	{"cmul", SHAPE(1, 2), SHAPE(2, 3, 2)},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* ---- running one ---- */

struct setup {
	enum op op;
	struct attrs attrs;
	struct type v, a, y, k;
	struct arena arena;
	const struct kernels *kernels;
	void *b,
		*c; /* further operands: noise of the first one's shape; the diagonal of a tridiagonal outweighs the others */
};

/* "conv2d stride=2,1": positionals are numbers or words; lists are written with commas. */
static inline void set_arguments(struct setup *s, const char *text)
{
	char copy[128], *rest = copy;
	snprintf(copy, sizeof copy, "%s", text);
	const char *token = strtok_r(copy, " ", &rest);
	s->op = op_find(token);
	ck_assert_msg(s->op < OP_COUNT, "%s", token);
	attrs_default(&s->attrs, s->op);
	for (int place = 0; (token = strtok_r(NULL, " ", &rest));) {
		int64_t list[16];
		double *numbers = arena_array(&s->arena, 16, sizeof *numbers); /* attributes refer to them */
		const char *equals = strchr(token, '='), *value = equals ? equals + 1 : token;
		struct complaint complaint = {.arena = &s->arena};
		char name[32] = "", *end;
		snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - token) : 0, token);
		struct argument a = {.kind = ARGUMENT_NUMBER,
		                     .number = strtod(value, &end),
		                     .word = value,
		                     .integers = list,
		                     .numbers = numbers};
		a.integer = a.number == floor(a.number);
		a.as_integer = a.integer ? (int64_t)a.number : 0;
		if (*end == ',') {
			a.kind = ARGUMENT_LIST;
			for (const char *at = value; a.count < 16; at = end + 1) {
				numbers[a.count] = strtod(at, &end);
				a.integers = numbers[a.count] == floor(numbers[a.count]) ? a.integers : NULL;
				list[a.count] = (int64_t)numbers[a.count];
				a.count++;
				if (*end != ',')
					break;
			}
		} else if (!strcmp(value, "true") || !strcmp(value, "false")) {
			a.kind = ARGUMENT_BOOL;
			a.boolean = value[0] == 't';
		} else if (*end) {
			a.kind = ARGUMENT_WORD;
		}
		enum status status = attrs_set(&s->attrs, s->op, *name ? name : NULL, *name ? 0 : place++, &a, &complaint);
		ck_assert_msg(status == STATUS_OK, "%s: %s", text, complaint.message ? complaint.message : "?");
	}
}

static inline double noise(uint64_t *state)
{
	*state = *state * 6364136223846793005U + 1442695040888963407U;
	return (double)(*state >> 33) / 0x1p30 - 1;
}

/* Returns an array of TYPE, F32 or F64, of noise. */
static inline void *noise_of(struct arena *arena, const struct type *type)
{
	const size_t count = (size_t)shape_count(&type->shape);
	void *array = arena_array(arena, count + 1, sizeof(double));
	uint64_t state = 77;
	for (size_t i = 0; i < count; i++) {
		const double x = (double)(float)noise(&state);
		if (type->dtype == DTYPE_F64)
			((double *)array)[i] = x;
		else
			((float *)array)[i] = (float)x;
	}
	return array;
}

static inline size_t count_of(const struct type *type) { return (size_t)shape_count(&type->shape); }
static inline bool wide(const struct type *type) { return dtype_compute(type->dtype) == DTYPE_F64; }

static inline double get(const struct type *type, const void *array, size_t i)
{
	return wide(type) ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

static inline void set(const struct type *type, void *array, size_t i, double value)
{
	if (wide(type))
		((double *)array)[i] = value;
	else
		((float *)array)[i] = (float)value;
}

/* Returns false if the shapes do not fit. */
static inline bool begin(struct setup *s, const struct sample *sample, const struct kernels *kernels)
{
	struct complaint complaint = {.arena = &s->arena};
	memset(s, 0, sizeof *s);
	arena_init(&s->arena, &allocator_system);
	set_arguments(s, sample->text);
	s->kernels = kernels;
	s->v = (struct type){kernels->dtype, sample->v};
	s->a = (struct type){kernels->dtype, sample->a};
	const struct type *const operands[MAX_OPERANDS] = {op_table[s->op].operands ? &s->a : NULL,
	                                                   op_table[s->op].operands > 1 ? &s->a : NULL,
	                                                   op_table[s->op].operands > 2 ? &s->a : NULL};
	if (op_infer(s->op, &s->attrs, &s->v, operands, &s->y, &complaint)) {
		arena_free(&s->arena);
		return false;
	}
	if (operands[1])
		s->b = noise_of(&s->arena, &s->a);
	if (operands[2])
		s->c = noise_of(&s->arena, &s->a);
	for (size_t i = 0; op_is_tridiagonal(s->op) && i < count_of(&s->a); i++)
		set(&s->a, s->b, i, get(&s->a, s->b, i) + 4);
	s->k = op_keep_type(s->op, &s->attrs, &s->v, &s->a, &s->y, 0);
	struct diags diags;
	diags_init(&diags, &s->arena);
	ck_assert_int_eq(blas_load(op_libraries(s->op) & LIBRARY_LAPACK, 1, &diags), STATUS_OK);
	return true;
}

static inline void *block_of(const struct type *type)
{
	void *block = NULL;
	size_t bytes = (size_t)type_bytes(type);
	ck_assert_int_eq(posix_memalign(&block, 64, bytes ? bytes : 1), 0);
	memset(block, 0x7f, bytes);
	return block;
}

static inline struct op_call call_of(const struct setup *s, bool backward)
{
	struct op_call call = {.op = s->op,
	                       .attrs = &s->attrs,
	                       .v = &s->v,
	                       .a = &s->a,
	                       .y = &s->y,
	                       .whole = s->v.shape.ndim ? s->v.shape.dim[0] : 1,
	                       .kernels = s->kernels,
	                       .b = s->b,
	                       .c = s->c,
	                       .c_type = s->c ? &s->a : NULL};
	int64_t bytes = op_scratch(s->op, &s->attrs, &s->v, &s->a, &s->y, backward ? SCRATCH_BACK : SCRATCH_FORWARD);
	ck_assert_int_ge(bytes, 0);
	ck_assert_int_eq(posix_memalign(&call.scratch, 64, bytes ? (size_t)bytes : 1), 0);
	memset(call.scratch, 0xff, (size_t)bytes); /* NaN */
	return call;
}

static inline bool keeps(const struct setup *s) { return op_table[s->op].keeps[0].kind != KEEP_NOTHING; }

static inline void forward(const struct setup *s, void *y, const void *v, const void *a, void *k)
{
	struct op_call call = call_of(s, false);
	void *const keep[MAX_KEEPS] = {k, NULL};
	op_forward_get(s->op)(&call, y, v, a, keep);
	free(call.scratch);
}

/* The derivative gets the arrays that its row declares, and no other. */
static inline void vjp(const struct setup *s, void *dv, void *da, const void *g, const void *v, const void *a,
                       const void *y, const void *k)
{
	struct op_call call = call_of(s, true);
	const struct op_info *info = &op_table[s->op];
	unsigned bits = (dv ? info->needs_v : 0) | (da ? info->needs_a : 0);
	const void *const needs[MAX_NEEDS] = {bits & NEED_V ? v : NULL,    bits & NEED_A ? a : NULL,
	                                      bits & NEED_Y ? y : NULL,    bits & NEED_K ? k : NULL,
	                                      bits & NEED_B ? s->b : NULL, bits & NEED_C ? s->c : NULL};
	op_vjp_get(s->op)(&call, dv, da, g, needs);
	free(call.scratch);
}

/* Returns the operation that TEXT begins with. */
static inline enum op op_named(const char *text)
{
	char name[32];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(text, " "), text);
	return op_find(name);
}

/* Has OpenBLAS multiply, if it is installed. Returns whether it does. */
static inline bool load_blas(struct arena *arena)
{
	struct diags diags;
	arena_init(arena, &allocator_system);
	diags_init(&diags, arena);
	ck_assert_int_eq(blas_load(LIBRARY_PRODUCTS, 1, &diags), STATUS_OK);
	return !strcmp(blas_name(), "openblas");
}

#endif
