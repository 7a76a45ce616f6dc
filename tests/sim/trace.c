#include "tests/sim/trace.h"

#include <inttypes.h>

static void
print_member(const struct note *note, char which, FILE *out)
{
	switch (which) {
	case 'd':
		fprintf(out, "daemon %d", note->daemon + 1);
		break;
	case 'p':
		fprintf(out, "client %" PRIu64, note->peer);
		break;
	case 'n':
		fprintf(out, "%" PRId64, note->n);
		break;
	case 'm':
		fprintf(out, "%" PRId64, note->m);
		break;
	case 't':
		if (note->time == INT64_MAX)
			fputs("for ever", out);
		else
			fprintf(out, "%.3f ms", (double)note->time / 1e6);
		break;
	case 'w':
		fputs(note->word, out);
		break;
	case 'q':
		fputs(note->queue, out);
		break;
	default:
		break;
	}
}

static void
print_note(const struct trace *trace, const struct note *note, FILE *out)
{
	fprintf(out, "# %13.6f ms  ", (double)(note->at - trace->began) / 1e6);
	for (const char *at = note->text; *at != '\0'; at++) {
		if (*at == '{') {
			print_member(note, at[1], out);
			at += 2;
		} else {
			fputc(*at, out);
		}
	}
	fputc('\n', out);
}

void
trace_start(struct trace *trace, int64_t now, bool aloud)
{
	trace->count = trace->digest = 0;
	trace->began = now;
	trace->aloud = aloud;
}

void
trace_note(struct trace *trace, struct note note)
{
	struct note *kept = &trace->notes[trace->count++ % TRACE_NOTES];

	*kept = note;
	trace->digest = (trace->digest ^ (uint64_t)(note.at + note.n + note.m + note.daemon)) *
			UINT64_C(0x100000001b3); /* as FNV-1a does */
	if (trace->aloud)
		print_note(trace, kept, stdout);
}

void
trace_print(const struct trace *trace, FILE *out)
{
	uint64_t from = trace->count > TRACE_NOTES ? trace->count - TRACE_NOTES : 0;

	for (; !trace->aloud && from < trace->count; from++)
		print_note(trace, &trace->notes[from % TRACE_NOTES], out);
}
