package server

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
)

// mainHandler is what proxies see.
func (s *Server) mainHandler() (http.Handler, error) {
	filters, err := newRequestFilters(s.cfg.RequestFilters)
	if err != nil {
		return nil, err
	}
	compat := newCompat(s)
	s.registry.MustRegister(compat)
	mux := http.NewServeMux()
	routes := compat.observe(s.cache.Handler())
	mux.Handle("/routes", routes)
	mux.Handle("/routes/", routes)
	mux.HandleFunc("/health", s.health)
	if s.cfg.Redis.configured() {
		s.log.Info("Use endpoints " + s.cfg.Redis.Namespace + "/" + s.cfg.Redis.Name + " to fetch updated redis shards")
		mux.Handle("/swarm/redis/shards", s.shards(s.cfg.Redis, compat.redisEndpoints.Store))
	}
	if s.cfg.Valkey.configured() {
		s.log.Info("Use endpoints " + s.cfg.Valkey.Namespace + "/" + s.cfg.Valkey.Name + " to fetch updated valkey shards")
		mux.Handle("/swarm/valkey/shards", s.shards(s.cfg.Valkey, compat.valkeyEndpoints.Store))
	}
	filtered := filters.wrap(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" { // exactly this path is never filtered
			mux.ServeHTTP(w, r)
			return
		}
		filtered.ServeHTTP(w, r)
	}), nil
}

// health answers whether there is a table. It never takes that back.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.cache.Current() == nil {
		http.Error(w, "routes were not initialized yet", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

type shardList struct {
	Endpoints []shardEndpoint `json:"endpoints"`
}

type shardEndpoint struct {
	Address string `json:"address"`
}

// shards gives the addresses of a service from the last successful read; before that it has nothing to say.
func (s *Server) shards(shard Shard, observe func(int64)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		addresses, ok := s.engine.Addresses(shard.Namespace, shard.Name)
		if !ok {
			w.Header().Set("Retry-After", "3")
			http.Error(w, "the cluster was not read yet", http.StatusServiceUnavailable)
			return
		}
		list := shardList{Endpoints: make([]shardEndpoint, 0, len(addresses))}
		for _, a := range addresses {
			list.Endpoints = append(list.Endpoints, shardEndpoint{net.JoinHostPort(a, strconv.Itoa(shard.Port))})
		}
		observe(int64(len(addresses)))
		body, err := json.Marshal(list)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body)
	})
}
