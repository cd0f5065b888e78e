package cluster

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// fromKubeconfig returns the client configuration of a kubeconfig.
func (c Config) fromKubeconfig() (*rest.Config, error) {
	rc, err := c.loadKubeconfig()
	if err != nil {
		return nil, err
	}
	if rc.BearerToken != "" && rc.BearerTokenFile == "" {
		info, _ := os.Stat(c.Kubeconfig) // without it, the first request reads the file again
		token := &inlineToken{config: c, token: rc.BearerToken, read: info}
		rc.BearerToken = ""
		rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return &withToken{token, next} })
	}
	return rc, nil
}

func (c Config) loadKubeconfig() (*rest.Config, error) {
	if err := checkFile(c.Kubeconfig, maxKubeconfigFile); err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", c.Kubeconfig, err)
	}
	rc, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: c.Context},
	).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", c.Kubeconfig, err)
	}
	return rc, nil
}

// inlineToken is a token inlined in a kubeconfig. Client-go rereads token files, but not inlined tokens.
type inlineToken struct {
	config Config

	mu    sync.Mutex // guards the fields below
	token string
	read  fs.FileInfo // of the file with the token
}

// current returns the token. It rereads the file if it changed, and keeps the previous token if the new file is unusable.
func (t *inlineToken) current() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	is, err := os.Stat(t.config.Kubeconfig)
	if err != nil || t.read != nil && os.SameFile(is, t.read) && is.Size() == t.read.Size() && is.ModTime().Equal(t.read.ModTime()) {
		return t.token
	}
	if rc, err := t.config.loadKubeconfig(); err == nil && rc.BearerToken != "" {
		t.token, t.read = rc.BearerToken, is
	}
	return t.token
}

// withToken adds a token to requests.
type withToken struct {
	token *inlineToken
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (w *withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context()) // as the interface demands
	r.Header.Set("Authorization", "Bearer "+w.token.current())
	return w.next.RoundTrip(r)
}
