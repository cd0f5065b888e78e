//go:build linux

package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/routesrv/routesrv/test/sandbox"
)

// container is a started container.
type container struct {
	spec     *corev1.Container
	settings sandbox.Config
	process  *sandbox.Process
	log      *output
	started  atomic.Bool // the startup probe has succeeded
	ready    atomic.Bool
}

// output keeps what a container prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start starts a container and its probes, which run until running ends.
func (p *Pod) start(ctx, running context.Context, spec *corev1.Container) (*container, error) {
	fail := func(err error) (*container, error) { return nil, fmt.Errorf("container %s: %w", spec.Name, err) }
	root, err := p.folder(0o755, "roots", spec.Name)
	if err != nil {
		return fail(err)
	}
	img := p.cfg.Images[spec.Image]
	if err := img.unpack(root); err != nil {
		return fail(err)
	}
	c := &container{spec: spec, log: &output{}}
	settings := sandbox.Config{Root: root, Network: p.net, Hostname: p.cfg.Pod.Name, Stdout: c.log, Stderr: c.log}
	settings.Args = slices.Concat(spec.Command, spec.Args)
	if len(spec.Command) == 0 {
		settings.Args = slices.Concat(img.Entrypoint, spec.Args)
	}
	if err := p.user(spec, img.User, &settings); err != nil {
		return fail(err)
	}
	if settings.Env, err = p.environment(ctx, spec); err != nil {
		return fail(err)
	}
	for i, a := range settings.Args {
		settings.Args[i] = expand(a, settings.Env)
	}
	if settings.Mounts, err = p.mounts(spec); err != nil {
		return fail(err)
	}
	if c.process, err = sandbox.Start(settings); err != nil {
		return fail(err)
	}
	c.settings = settings
	p.working.Go(func() {
		<-c.process.Done()
		c.ready.Store(false)
		if !p.stopping.Load() {
			p.fault(fmt.Errorf("container %s ended by itself: %v: %s", spec.Name, c.process.Wait(), c.log))
		}
	})
	p.working.Go(func() { p.probe(running, c) })
	return c, nil
}

// user sets the user of the container, and whether it may write to its file system.
func (p *Pod) user(spec *corev1.Container, ofImage string, s *sandbox.Config) error {
	pod, own := p.cfg.Pod.Spec.SecurityContext, spec.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	uid, gid, _ := strings.Cut(ofImage, ":")
	pick := func(own, pod *int64, image string) (uint32, error) {
		switch {
		case own != nil:
			return uint32(*own), nil
		case pod != nil:
			return uint32(*pod), nil
		case image == "":
			return 0, nil
		}
		n, err := strconv.ParseUint(image, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("user %q of the image: %w", ofImage, err)
		}
		return uint32(n), nil
	}
	var err error
	if s.UID, err = pick(own.RunAsUser, pod.RunAsUser, uid); err != nil {
		return err
	}
	// A runtime uses the group of the image only together with its user.
	if own.RunAsUser != nil || pod.RunAsUser != nil {
		gid = ""
	}
	if s.GID, err = pick(own.RunAsGroup, pod.RunAsGroup, gid); err != nil {
		return err
	}
	nonRoot := pod.RunAsNonRoot
	if own.RunAsNonRoot != nil {
		nonRoot = own.RunAsNonRoot
	}
	if nonRoot != nil && *nonRoot && s.UID == 0 {
		return errors.New("it would run as root, and runAsNonRoot is set")
	}
	for _, g := range pod.SupplementalGroups {
		s.Groups = append(s.Groups, uint32(g))
	}
	if pod.FSGroup != nil {
		s.Groups = append(s.Groups, uint32(*pod.FSGroup))
	}
	s.Writable = own.ReadOnlyRootFilesystem == nil || !*own.ReadOnlyRootFilesystem
	return nil
}

// searchPath is what the runtime of containers sets where the image does not.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the variables of the runtime, the node and the manifest; for a repeated name the last value counts.
func (p *Pod) environment(ctx context.Context, spec *corev1.Container) ([]string, error) {
	all := map[string]string{"PATH": searchPath, "HOSTNAME": p.cfg.Pod.Name}
	all["KUBERNETES_SERVICE_HOST"], all["KUBERNETES_SERVICE_PORT"] = apiServer.Addr().String(), strconv.Itoa(int(apiServer.Port()))
	services, err := p.cfg.Client.CoreV1().Services(p.cfg.Pod.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("services: %w", err)
	}
	for i := range services.Items {
		if links := p.cfg.Pod.Spec.EnableServiceLinks; links == nil || *links {
			maps.Copy(all, serviceLinks(&services.Items[i]))
		}
	}
	for _, e := range spec.Env {
		value := e.Value
		if e.ValueFrom != nil {
			var err error
			if value, err = p.valueFrom(ctx, e.ValueFrom); err != nil {
				return nil, fmt.Errorf("variable %s: %w", e.Name, err)
			}
		}
		all[e.Name] = value
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, name+"="+all[name])
	}
	return list, nil
}

// valueFrom returns a value that the manifest references.
func (p *Pod) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (string, error) {
	if err := only("it", *from, "FieldRef", "SecretKeyRef"); err != nil {
		return "", err
	}
	if from.FieldRef != nil {
		return p.field(from.FieldRef.FieldPath)
	}
	secret, err := p.cfg.Client.CoreV1().Secrets(p.cfg.Pod.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	value, ok := secret.Data[from.SecretKeyRef.Key]
	if !ok {
		return "", fmt.Errorf("secret %s has no key %s", secret.Name, from.SecretKeyRef.Key)
	}
	return string(value), nil
}

// expand replaces $(NAME) in an argument with the variable, and $$ with $. It keeps references to unknown variables.
func expand(s string, env []string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		end := 0
		if strings.HasPrefix(s[i:], "$(") {
			end = strings.IndexByte(s[i:], ')')
		}
		switch {
		case strings.HasPrefix(s[i:], "$$"):
			b.WriteByte('$')
			i++
		case end > 0:
			value := s[i : i+end+1]
			for _, e := range env {
				if name, v, _ := strings.Cut(e, "="); name == s[i+2:i+end] {
					value = v
				}
			}
			b.WriteString(value)
			i += end
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// field returns a value of the downward API.
func (p *Pod) field(path string) (string, error) {
	switch path {
	case "metadata.name":
		return p.cfg.Pod.Name, nil
	case "metadata.namespace":
		return p.cfg.Pod.Namespace, nil
	case "metadata.uid":
		return string(p.cfg.Pod.UID), nil
	case "spec.nodeName":
		return p.cfg.Pod.Spec.NodeName, nil
	case "status.podIP":
		return p.cfg.IP.String(), nil
	}
	return "", fmt.Errorf("field %s is not imitated", path)
}

// serviceLinks returns the variables that a pod gets for a Service of its namespace, as far as they can be taken for settings.
func serviceLinks(s *corev1.Service) map[string]string {
	all := map[string]string{}
	env := func(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
	for i, port := range s.Spec.Ports {
		prefix, n := env(s.Name)+"_", strconv.Itoa(int(port.Port))
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			continue
		}
		if all[prefix+"SERVICE_PORT_"+env(port.Name)] = n; i == 0 {
			all[prefix+"SERVICE_HOST"], all[prefix+"SERVICE_PORT"], all[prefix+"PORT"] = s.Spec.ClusterIP, n, "tcp://"+s.Spec.ClusterIP+":"+n
		}
	}
	return all
}

// Exec runs a program in a container, as kubectl exec does, and returns its output and the error of exec.Cmd.Wait. The program is an
// absolute path: there is no shell.
func (p *Pod) Exec(ctx context.Context, name string, args ...string) (stdout, stderr string, err error) {
	for _, c := range p.containers() {
		if c.spec.Name != name {
			continue
		}
		var out, errs output
		settings := c.settings
		settings.Args, settings.Stdout, settings.Stderr = args, &out, &errs
		process, err := sandbox.Start(settings)
		if err != nil {
			return "", "", err
		}
		defer context.AfterFunc(ctx, func() { _ = process.Signal(syscall.SIGKILL) })()
		err = process.Wait()
		return out.String(), errs.String(), err
	}
	return "", "", fmt.Errorf("pod %s has no container %s", p.Name(), name)
}
