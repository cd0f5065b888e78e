//go:build linux

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/test/sandbox"
)

// accountPath is where a pod finds its token.
const accountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// dataLink is the link to the current version of the files of a volume. Replacing it changes all files at once.
const dataLink = "..data"

// volume is a folder mounted in containers.
type volume struct {
	dir       string
	configMap string            // name of the ConfigMap that the volume follows, if any
	optional  bool              // the ConfigMap may be missing
	current   map[string]string // last written; owned by the caller of Sync
}

// makeVolumes creates the volumes of the manifest, and those that every pod has: its token, hosts and resolver files.
func (p *Pod) makeVolumes(ctx context.Context) error {
	for i := range p.cfg.Pod.Spec.Volumes {
		v := &p.cfg.Pod.Spec.Volumes[i]
		made, err := p.makeVolume(v)
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		p.volumes[v.Name] = made
	}
	if err := p.Sync(ctx); err != nil {
		return err
	}
	return errors.Join(p.makeAccount(ctx), p.makeHosts())
}

func (p *Pod) makeVolume(v *corev1.Volume) (*volume, error) {
	if err := only("it", v.VolumeSource, "EmptyDir", "ConfigMap"); err != nil {
		return nil, err
	}
	if v.ConfigMap != nil {
		// The mode is the API server's default.
		if err := only("it", *v.ConfigMap, "LocalObjectReference", "DefaultMode", "Optional"); err != nil {
			return nil, err
		}
		dir, err := p.folder(0o755, "volumes", v.Name)
		return &volume{dir: dir, configMap: v.ConfigMap.Name, optional: v.ConfigMap.Optional != nil && *v.ConfigMap.Optional}, err
	}
	if err := only("it", *v.EmptyDir, "SizeLimit"); err != nil {
		return nil, err
	}
	dir, err := p.folder(0o777, "volumes", v.Name)
	if s := p.cfg.Pod.Spec.SecurityContext; err == nil && s != nil && s.FSGroup != nil {
		err = os.Chown(dir, -1, int(*s.FSGroup))
		if errors.Is(err, syscall.EINVAL) {
			err = nil // a user namespace may not have the group: everybody can write to the folder anyway
		}
		if err == nil {
			err = os.Chmod(dir, 0o777|os.ModeSetgid)
		}
	}
	return &volume{dir: dir}, err
}

// Sync updates the files of all volumes from their ConfigMaps, as a kubelet does about every minute. All files of a volume change
// at once. It must not be called concurrently.
func (p *Pod) Sync(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(p.volumes)) {
		v := p.volumes[name]
		if v.configMap == "" {
			continue
		}
		m, err := p.cfg.Client.CoreV1().ConfigMaps(p.cfg.Pod.Namespace).Get(ctx, v.configMap, metav1.GetOptions{})
		switch {
		case v.optional && apierrors.IsNotFound(err):
			m = &corev1.ConfigMap{}
		case err != nil:
			return fmt.Errorf("volume %s: %w", name, err)
		}
		if len(m.BinaryData) > 0 {
			return fmt.Errorf("volume %s: binary data is not imitated", name)
		}
		if v.current != nil && maps.Equal(v.current, m.Data) {
			continue
		}
		if err := publish(v.dir, m.Data, 0o644); err != nil {
			return fmt.Errorf("volume %s: %w", name, err)
		}
		v.current = m.Data
	}
	return nil
}

// publish replaces the files of a folder: it writes them to a new folder, points a link to that, and links the names that
// programs use into it.
func publish(dir string, files map[string]string, mode os.FileMode) error {
	version, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return err
	}
	if err := os.Chmod(version, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(version, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	link := filepath.Join(dir, dataLink)
	old, _ := os.Readlink(link) // missing the first time
	next := link + "_tmp"
	if err := os.Symlink(filepath.Base(version), next); err != nil {
		return err
	}
	if err := os.Rename(next, link); err != nil {
		return err
	}
	for name := range files {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, there := files[e.Name()]; !there && !strings.HasPrefix(e.Name(), "..") {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

// accountVolume is the name of the volume with the token; no name in a manifest can equal it.
const accountVolume = "/token"

// makeAccount requests a token that is bound to the pod.
func (p *Pod) makeAccount(ctx context.Context) error {
	s := &p.cfg.Pod.Spec
	if s.AutomountServiceAccountToken != nil && !*s.AutomountServiceAccountToken {
		return nil
	}
	seconds := int64(3607) // the value that Kubernetes requests
	r, err := p.cfg.Client.CoreV1().ServiceAccounts(p.cfg.Pod.Namespace).CreateToken(ctx, s.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				APIVersion: "v1", Kind: "Pod", Name: p.cfg.Pod.Name, UID: p.cfg.Pod.UID,
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of service account %q: %w", s.ServiceAccountName, err)
	}
	dir, err := p.folder(0o755, "token")
	if err != nil {
		return err
	}
	p.volumes[accountVolume] = &volume{dir: dir}
	// Kubernetes restricts it to the group of the pod's volumes if that is set. Here every user in the pod may read it.
	return publish(dir, map[string]string{
		"token": r.Status.Token, "ca.crt": string(p.cfg.CA), "namespace": p.cfg.Pod.Namespace,
	}, 0o644)
}

// nodeFiles is the volume with the node's network files.
const nodeFiles = "node"

func (p *Pod) makeHosts() error {
	dir, err := p.folder(0o755, nodeFiles)
	if err != nil {
		return err
	}
	var hosts strings.Builder
	line := func(a netip.Addr, name string) { fmt.Fprintf(&hosts, "%s\t%s\n", a, name) }
	line(apiServer.Addr(), "localhost")
	line(p.cfg.IP, p.cfg.Pod.Name)
	for _, name := range slices.Sorted(maps.Keys(p.cfg.Hosts)) {
		line(p.cfg.Hosts[name], name)
	}
	resolver := fmt.Sprintf("search %s.svc.cluster.local svc.cluster.local cluster.local\nnameserver 127.0.0.1\noptions ndots:5\n",
		p.cfg.Pod.Namespace)
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "hosts"), []byte(hosts.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte(resolver), 0o644))
}

// mounts returns the mounts of a container.
func (p *Pod) mounts(spec *corev1.Container) ([]sandbox.Mount, error) {
	node := filepath.Join(p.cfg.Dir, nodeFiles)
	all := []sandbox.Mount{
		{Source: filepath.Join(node, "hosts"), Target: "/etc/hosts", ReadOnly: true},
		{Source: filepath.Join(node, "resolv.conf"), Target: "/etc/resolv.conf", ReadOnly: true},
	}
	if v := p.volumes[accountVolume]; v != nil {
		all = append(all, sandbox.Mount{Source: v.dir, Target: accountPath, ReadOnly: true})
	}
	for _, m := range spec.VolumeMounts {
		v := p.volumes[m.Name]
		if v == nil {
			return nil, fmt.Errorf("there is no volume %s", m.Name)
		}
		// A volume that follows an object is read-only, whatever the mount says.
		all = append(all, sandbox.Mount{Source: v.dir, Target: m.MountPath, ReadOnly: m.ReadOnly || v.configMap != ""})
	}
	return all, nil
}
