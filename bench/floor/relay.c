/*
 * relay is what a relay costs at the least: the system calls that weir makes
 * for a session, with next to nothing in between. It has no time-outs, no
 * counters, no second attempt, no choice but one server after the other, and it
 * passes resets on as ends. It is here to be measured and for nothing else.
 *
 *	relay LISTEN,LISTEN=SERVER,SERVER [...]     (IPv4 address:port each)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 64 << 10, PIPE = 1 << 20, SPLICE = 640 << 10, SPLICE_BELOW = 2 << 10, MAX_FD = 1 << 18, MAX_GROUP = 4096 };
#define EVENTS (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

/* half is one connection, and the bytes read from it that the other has still
 * to take. */
struct half {
	int fd;
	int readable, writable, hung_up, finished, ended, shut, nagle, splice;
	char *buf;
	int pipe[2]; /* 0 = none */
	int pending, off;
};

struct session {
	struct half half[2];
	int connected;
};

struct group {
	struct sockaddr_in server[MAX_GROUP];
	int servers, next;
};

static struct session *owner[MAX_FD];  /* by either descriptor */
static struct group *listening[MAX_FD];
static char buffer[BUFFER];
static int pipes[1024][2], free_pipes;
static int epfd;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct sockaddr_in address(char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	char *colon = strchr(text, ':');
	if (!colon)
		die(text);
	*colon = 0;
	if (!inet_aton(text, &a.sin_addr))
		die(text);
	a.sin_port = htons(atoi(colon + 1));
	return a;
}

static void watch(int fd, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.fd = fd};
	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
		die("epoll_ctl");
}

static void open_pipe(struct half *h)
{
	if (free_pipes > 0) {
		free_pipes--;
		memcpy(h->pipe, pipes[free_pipes], sizeof h->pipe);
		return;
	}
	if (pipe2(h->pipe, O_NONBLOCK | O_CLOEXEC))
		die("pipe2");
	fcntl(h->pipe[1], F_SETPIPE_SZ, PIPE);
}

/* return_empty gives back the buffer or pipe of a flow with nothing pending. */
static void return_empty(struct half *h)
{
	if (!h->pipe[0])
		return;
	if (h->pending == 0 && free_pipes < 1024) {
		memcpy(pipes[free_pipes++], h->pipe, sizeof h->pipe);
	} else {
		close(h->pipe[0]);
		close(h->pipe[1]);
	}
	h->pipe[0] = 0;
}

static void hurry(struct half *h)
{
	static const int on = 1;
	if (h->nagle == 1)
		setsockopt(h->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (h->nagle)
		h->nagle--;
}

/* deliver sends on what is pending and returns 0 if it has to wait. */
static int deliver(struct half *src, struct half *dst)
{
	ssize_t n;
	hurry(dst);
	if (src->pipe[0])
		n = splice(src->pipe[0], NULL, dst->fd, NULL, src->pending, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	else
		n = send(dst->fd, src->buf + src->off, src->pending, MSG_NOSIGNAL);
	if (n < 0 && errno == EAGAIN) {
		dst->writable = 0;
		return 0;
	}
	if (n < 0) { /* nobody takes it any more */
		n = src->pending;
		src->ended = 1;
		dst->ended = 1;
	}
	src->pending -= n;
	src->off += n;
	if (src->pending == 0)
		return_empty(src);
	return 1;
}

static int take_spliced(struct half *src)
{
	open_pipe(src);
	ssize_t n = splice(src->fd, NULL, src->pipe[1], NULL, SPLICE, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0) {
		src->splice = n >= SPLICE_BELOW;
		src->pending = n;
		return 1;
	}
	return_empty(src);
	if (n < 0 && errno == EAGAIN) {
		src->readable = 0;
		return 0;
	}
	src->ended = 1;
	return 0;
}

static void keep(struct half *src, const char *from, int n)
{
	if (!src->buf && !(src->buf = malloc(BUFFER)))
		die("malloc");
	if (from)
		memcpy(src->buf, from, n);
	src->off = 0;
	src->pending = n;
}

/* take reads once and sends on what it got; 0 = there was nothing. */
static int take(struct half *src, struct half *dst)
{
	if (src->splice)
		return take_spliced(src);
	ssize_t n = recv(src->fd, buffer, sizeof buffer, 0);
	if (n < 0 && errno == EAGAIN) {
		src->readable = 0;
		return 0;
	}
	if (n <= 0) {
		src->ended = 1;
		return 0;
	}
	int last = n < BUFFER && src->finished;
	if (n < BUFFER)
		src->readable = src->hung_up;
	else
		src->splice = 1;
	hurry(dst);
	ssize_t sent = send(dst->fd, buffer, n, MSG_NOSIGNAL | (last ? MSG_MORE : 0));
	if (last)
		src->ended = 1;
	if (sent < 0 && errno == EAGAIN) {
		dst->writable = 0;
		sent = 0;
	}
	if (sent < 0) {
		src->ended = dst->ended = 1;
		return 0;
	}
	if (sent < n)
		keep(src, buffer + sent, n - sent);
	return 1;
}

static void finish(struct session *s)
{
	for (int d = 0; d < 2; d++) {
		struct half *h = &s->half[d];
		return_empty(h);
		free(h->buf);
		owner[h->fd] = NULL;
		close(h->fd);
	}
	free(s);
}

static void advance(struct session *s)
{
	for (int d = 0; d < 2; d++) {
		struct half *src = &s->half[d], *dst = &s->half[1 - d];
		int moved = 0;
		for (;;) {
			if (src->pending > 0) {
				if (!dst->writable || !deliver(src, dst))
					break;
			} else if (src->ended || !src->readable || !dst->writable || moved++ == 64 || (!take(src, dst) && !src->ended)) {
				break;
			}
		}
	}
	for (int d = 0; d < 2; d++) {
		struct half *src = &s->half[d], *dst = &s->half[1 - d];
		if (!src->ended || src->pending > 0 || dst->shut)
			continue;
		dst->shut = 1;
		if (!s->half[0].shut || !s->half[1].shut)
			shutdown(dst->fd, SHUT_WR);
	}
	if (s->half[0].shut && s->half[1].shut)
		finish(s);
}

static void on_accept(int listener)
{
	static const int off = 0;
	struct group *g = listening[listener];
	for (int taken = 0; taken < 64; taken++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		struct session *s = calloc(1, sizeof *s);
		int up = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (!s || up < 0 || up >= MAX_FD || fd >= MAX_FD)
			die("open session");
		s->half[0].fd = fd;
		s->half[1].fd = up;
		s->half[1].nagle = 2;
		s->half[0].writable = s->half[1].writable = 1;
		owner[fd] = owner[up] = s;
		watch(fd, EVENTS);
		keep(&s->half[0], NULL, 0);
		ssize_t n = recv(fd, s->half[0].buf, BUFFER, 0);
		if (n > 0) {
			s->half[0].pending = n;
			setsockopt(up, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
		}
		connect(up, (struct sockaddr *)&g->server[g->next++ % g->servers], sizeof g->server[0]);
		watch(up, EVENTS);
	}
}

static void on_ready(int fd, uint32_t events)
{
	struct session *s = owner[fd];
	if (!s)
		return;
	int d = s->half[1].fd == fd;
	struct half *h = &s->half[d];
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		h->readable = 1;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		h->writable = 1;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		h->hung_up = 1;
	if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == EPOLLRDHUP)
		h->finished = 1;
	if (!s->connected && d == 1 && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)))
		s->connected = 1;
	if (s->connected)
		advance(s);
}

static void serve(char *spec)
{
	static const int on = 1;
	struct group *g = calloc(1, sizeof *g);
	char *equals = strchr(spec, '='), *save, *item;
	if (!g || !equals)
		die(spec);
	*equals = 0;
	for (item = strtok_r(equals + 1, ",", &save); item && g->servers < MAX_GROUP; item = strtok_r(NULL, ",", &save))
		g->server[g->servers++] = address(item);
	for (item = strtok_r(spec, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		struct sockaddr_in a = address(item);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd < 0 || fd >= MAX_FD)
			die("socket");
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		if (bind(fd, (struct sockaddr *)&a, sizeof a) || listen(fd, 4096))
			die("listen");
		listening[fd] = g;
		watch(fd, EPOLLIN);
	}
}

int main(int argc, char **argv)
{
	struct epoll_event events[256];
	struct rlimit limit;
	signal(SIGPIPE, SIG_IGN);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	if ((epfd = epoll_create1(EPOLL_CLOEXEC)) < 0)
		die("epoll_create1");
	for (int i = 1; i < argc; i++)
		serve(argv[i]);
	for (;;) {
		int n = epoll_wait(epfd, events, 256, -1);
		for (int i = 0; i < n; i++) {
			if (listening[events[i].data.fd])
				on_accept(events[i].data.fd);
			else
				on_ready(events[i].data.fd, events[i].events);
		}
	}
}
