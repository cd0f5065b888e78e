# Varnish as a cache between route servers and proxies (docs/grow/relays.md). Route servers run with --cache-max-age=3s.
vcl 4.1;

import directors;
import std;

probe ready {
    .url = "/health";
    .expected_response = 204;
    .interval = 1s;
    .timeout = 2s;
    .window = 3;
    .threshold = 2;
    .initial = 2;
}

# The Service of the route servers, or one backend for each of them.
backend s0 {
    .host = "routesrv.ingress";
    .port = "80";
    .probe = ready;
}

sub vcl_init {
    new servers = directors.round_robin();
    servers.add_backend(s0);
}

sub vcl_recv {
    set req.backend_hint = servers.backend();
    # A cache has no deltas: it would keep one for a client that has another table.
    unset req.http.A-IM;
    if (req.url == "/routes/watch" || req.url ~ "^/routes/watch\?") {
        return (pipe);
    }
    # While a server is ready, nobody gets a table that is older than --cache-max-age allows.
    if (std.healthy(req.backend_hint)) {
        set req.grace = 3s;
    }
    return (hash);
}

sub vcl_hash {
    # One entry for each path. Vary keeps the encodings apart.
    hash_data(regsub(req.url, "\?.*$", ""));
    return (lookup);
}

sub vcl_backend_response {
    # Varnish packs and unpacks by itself, with ETags of its own; the route server does it better.
    set beresp.do_gzip = false;
    set beresp.do_gunzip = false;
    if (beresp.status == 200) {
        # While no route server answers, the last table is served for a day.
        set beresp.grace = 1d;
        set beresp.keep = 1d;
    } else if (bereq.is_bgfetch) {
        # A server without a table must not take the place of one.
        return (abandon);
    }
}
