package publish_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/routesrv/routesrv/internal/release"
	"github.com/routesrv/routesrv/internal/release/publish"
)

// newRegistry starts an empty registry.
func newRegistry(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // no credentials of this machine
	return s
}

func push(t *testing.T, dir, repository string) (refs []string, err error) {
	t.Helper()
	r, err := publish.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Push(t.Context(), repository, func(ref, digest string) { refs = append(refs, ref+"@"+digest) })
	return refs, err
}

// get asks the registry and decodes what it answers, without the library that pushes.
func get(t *testing.T, url string, into any) (digest string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, resp.Status, err, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatal(err)
	}
	return resp.Header.Get("Docker-Content-Digest")
}

// TestRegistryHasTheSignedRelease finds everything by the names that clients ask for.
func TestRegistryHasTheSignedRelease(t *testing.T) {
	s := newRegistry(t)
	dir := smallRelease(t)
	sign(t, dir, newKey(t), noPassword)
	refs, err := push(t, dir, strings.TrimPrefix(s.URL, "http://")+"/team/routesrv")
	if err != nil {
		t.Fatal(err)
	}
	if len(refs) != 8 || !strings.Contains(refs[len(refs)-1], "/team/routesrv-manifests:"+version+"@") {
		t.Errorf("pushed %q", refs)
	}
	at := slices.IndexFunc(refs, func(ref string) bool { return strings.Contains(ref, "/team/routesrv:"+version+"@") })
	if at != 4 {
		t.Errorf("the version is pushed before its four signatures: %q", refs)
	}
	for repository, file := range map[string]string{
		"/v2/team/routesrv": release.ImageFile(version), "/v2/team/routesrv-manifests": release.ManifestsFile(version),
	} {
		var manifest descriptor
		digest := get(t, s.URL+repository+"/manifests/"+version, &manifest)
		top, _ := blobs(t, filepath.Join(dir, file))
		if digest != top.Manifests[0].Digest {
			t.Errorf("%s: digest %s, want %s", repository, digest, top.Manifests[0].Digest)
		}
		all := []string{digest}
		for _, m := range manifest.Manifests {
			all = append(all, m.Digest)
		}
		for _, digest := range all {
			var signature descriptor
			get(t, s.URL+repository+"/manifests/"+strings.Replace(digest, ":", "-", 1)+".sig", &signature)
			if len(signature.Layers) != 1 || signature.Layers[0].Annotations["dev.cosignproject.cosign/signature"] == "" {
				t.Errorf("signature of %s: %+v", digest, signature)
			}
		}
		var attestation, envelope descriptor
		get(t, s.URL+repository+"/manifests/"+strings.Replace(digest, ":", "-", 1)+".att", &attestation)
		get(t, s.URL+repository+"/blobs/"+attestation.Layers[0].Digest, &envelope)
	}
}

func TestPushedAgain(t *testing.T) {
	s := newRegistry(t)
	repository := strings.TrimPrefix(s.URL, "http://") + "/routesrv"
	dir := smallRelease(t) // without signatures
	for range 2 {
		if refs, err := push(t, dir, repository); err != nil || len(refs) != 2 {
			t.Fatalf("pushed %q, %v", refs, err)
		}
	}
	// A release that differs, in whatever.
	other := smallRelease(t)
	image := release.ImageFile(version)
	if err := os.Remove(filepath.Join(other, release.Sums)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(other, image), string(read(t, dir, release.ManifestsFile(version))))
	writeSums(t, other)
	if refs, err := push(t, other, repository); err == nil || !strings.Contains(err.Error(), "a release never changes") || len(refs) > 0 {
		t.Errorf("pushed %q, %v", refs, err)
	}
}

// TestSignaturesOfAnotherReleaseAreNotPushed: what is signed must be what is pushed.
func TestSignaturesOfAnotherReleaseAreNotPushed(t *testing.T) {
	s := newRegistry(t)
	dir := smallRelease(t)
	sign(t, dir, newKey(t), noPassword)
	if err := os.Remove(filepath.Join(dir, release.ImageFile(version))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, release.ImageFile(version)), string(read(t, dir, release.ManifestsFile(version))))
	var sums strings.Builder
	for line := range strings.Lines(string(read(t, dir, release.Sums))) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(read(t, dir, name)), name)
	}
	write(t, filepath.Join(dir, release.Sums), sums.String())
	if refs, err := push(t, dir, strings.TrimPrefix(s.URL, "http://")+"/routesrv"); err == nil || !strings.Contains(err.Error(), "sign the release again") || len(refs) > 0 {
		t.Errorf("pushed %q, %v", refs, err)
	}
}

func TestPushSaysWhatFails(t *testing.T) {
	s := newRegistry(t)
	dir := smallRelease(t)
	if _, err := push(t, dir, "routesrv:tag"); err == nil || !strings.Contains(err.Error(), "repository") {
		t.Errorf("error %v", err)
	}
	s.Close()
	if _, err := push(t, dir, strings.TrimPrefix(s.URL, "http://")+"/routesrv"); err == nil || !strings.Contains(err.Error(), release.ImageFile(version)) {
		t.Errorf("error %v", err)
	}
}
