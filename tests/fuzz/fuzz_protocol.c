/*
 * Fuzz target: bytes from the socket through line, json, message and methods. The first byte
 * decides how the rest is cut into reads. It must not crash. An accepted input can be printed, and
 * reads back the same.
 *
 *	make fuzz FUZZ=protocol
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/line.h"
#include "protocol/message.h"
#include "protocol/methods.h"
#include "tests/fuzz/fuzz.h"

#define LINE_MAX_HERE 2048

/* Parses and prints again; takes text. */
static char *
reprint(char *text)
{
	struct json_error error = {0};
	struct cJSON *value = json_parse(text, strlen(text), &error);
	char *printed;

	must(value != NULL, "what was printed is refused");
	printed = json_print(value);
	must(printed != NULL && strchr(printed, '\n') == NULL, "cannot be printed on one line");
	json_free(value);
	free(text);
	return printed;
}

/*
 * Printed text is read back and prints the same, except the first time. Numbers that are no
 * integers below 2^53 may then lose their last bit (cJSON 1.7.15, print_number).
 */
static void
check_json(const char *line, size_t len)
{
	struct json_error error = {0};
	struct cJSON *value = json_parse(line, len, &error);
	char *printed, *reprinted;

	if (value == NULL) {
		must(error.what != NULL && error.at <= len, "an error without place");
		return;
	}
	printed = json_print(value);
	must(printed != NULL, "cannot be printed");
	printed = reprint(printed);
	reprinted = reprint(strdup(printed));
	must(strcmp(printed, reprinted) == 0, "is printed in another way");
	free(printed);
	free(reprinted);
	json_free(value);
}

static void
check_answer(const char *line, size_t len)
{
	struct message_answer answer;
	const char *what = NULL;

	if (message_parse_answer(line, len, &answer, &what))
		message_answer_done(&answer);
	else
		must(what != NULL, "an answer is refused without a reason");
}

static bool
same_id(const struct message_id *a, const struct message_id *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == MESSAGE_ID_INTEGER)
		return a->integer == b->integer;
	return a->kind == MESSAGE_ID_NULL || strcmp(a->string, b->string) == 0;
}

/* An answer of ours to a request must read back, with the request's id; bad params are named. */
static void
check_reply(char *line, const struct message_id *id)
{
	struct message_answer answer;
	const char *what, *parameter;

	must(line != NULL, "an answer cannot be made");
	must(message_parse_answer(line, strlen(line), &answer, &what), "our own answer is refused");
	must(same_id(&answer.id, id), "the id is not echoed");
	if (answer.kind == MESSAGE_ERROR && answer.code == REASON_INVALID_PARAMS)
		must(json_string(json_get(answer.content, "parameter"), &parameter),
		    "no parameter is named");
	message_answer_done(&answer);
	free(line);
}

static void
check_request(const char *line, size_t len)
{
	struct message_request request;
	struct message_error error;
	const struct method_spec *method;
	struct method_params params;

	if (!message_parse_request(line, len, &request, &error)) {
		check_reply(message_error_line(&request.id, &error, NULL), &request.id);
		return;
	}
	method = method_find(request.method);
	if (method != NULL && !method_params_parse(method, request.params, &params, &error)) {
		check_reply(message_error_line(&request.id, &error, NULL), &request.id);
	} else {
		check_reply(message_result_line(&request.id, json_new_object()), &request.id);
	}
	message_request_done(&request);
}

/* False when the stream cannot go on. */
static bool
drain(struct line_reader *reader)
{
	enum line_status status;
	const char *line;
	size_t len;

	while ((status = line_reader_next(reader, &line, &len)) == LINE_READY) {
		must(len > 0 && len < LINE_MAX_HERE && line[len] == '\0', "not a line");
		check_json(line, len);
		check_request(line, len);
		check_answer(line, len);
	}
	return status == LINE_NONE;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct line_reader *reader = line_reader_new(LINE_MAX_HERE);
	size_t step;

	must(reader != NULL, "out of memory");
	step = size > 0 ? (size_t)data[0] + 1 : 1;
	for (size_t at = 1; at < size; at += step) {
		size_t n = size - at < step ? size - at : step;

		must(line_reader_feed(reader, data + at, n) == LINE_NONE, "out of memory");
		if (!drain(reader))
			break;
	}
	line_reader_free(reader);
	return 0;
}
