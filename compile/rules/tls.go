package rules

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/routesrv/routesrv/kube"
)

// tls checks spec.tls of an Ingress against the hosts of its rules.
func (b *ingressBuilder) tls() {
	hosts := make([]string, 0, len(b.ing.Spec.Rules))
	for _, r := range b.ing.Spec.Rules {
		hosts = append(hosts, r.Host)
	}
	b.checkTLS(b.ing.Spec.TLS, hosts, b.ing.Namespace, "ingress hosts", "Ingress")
}

// checkTLS records for each entry of spec.tls which hosts get a certificate, or why they do not. It does not affect the routes.
func (u *Unit) checkTLS(entries []kube.TLS, hosts []string, ns, hostsName, kindName string) {
	for _, e := range entries {
		var matching []string
		for _, h := range slices.Backward(e.Hosts) {
			if slices.Contains(hosts, h) {
				matching = append(matching, h)
			}
		}
		if len(matching) == 0 {
			u.add(Problem{
				Reason: TLSSecret, Severity: Error, Message: fmt.Sprintf("No matching tls hosts found - tls hosts: %v, %s: %v", e.Hosts, hostsName, hosts),
				Detail: fmt.Sprintf("spec.tls is for %s, and the object has no such host, so no host gets a certificate", quoted(e.Hosts)),
			})
			continue
		}
		if len(matching) < len(e.Hosts) {
			u.addf(Problem{Reason: TLSSecret, Severity: Info},
				"Hosts in TLS and %s don't match: tls hosts: %v, %s: %v", kindName, e.Hosts, hostsName, hosts)
		}
		if e.SecretName == "" {
			continue
		}
		// The raw namespace, but secrets without a namespace count as "default".
		secret := u.lookups.secret(kube.ServiceKey{Namespace: ns, Name: e.SecretName})
		if secret == nil {
			u.add(Problem{
				Reason: TLSSecret, Severity: Error, Message: fmt.Sprintf("Failed to find secret %s in namespace %s", e.SecretName, ns),
				Detail: fmt.Sprintf("there is no Secret %q in the namespace %q, so %s has no certificate of its own", e.SecretName, ns, quoted(matching)),
			})
			continue
		}
		notBefore, err := checkCertificate(secret)
		if err != nil {
			u.add(Problem{
				Reason: TLSSecret, Severity: Error, Message: fmt.Sprintf("Failed to generate TLS certificate from secret: %v", err),
				Detail: fmt.Sprintf("the Secret %q cannot be used as a certificate: %v", e.SecretName, err),
			})
			continue
		}
		for _, h := range matching {
			u.Certificates = append(u.Certificates, Certificate{h, notBefore})
		}
	}
}

// checkCertificate parses the key pair of a secret and returns the start of its validity. The error contains nothing of the
// secret.
func checkCertificate(s *kube.Secret) (time.Time, error) {
	if s.Cert == "" || s.Key == "" {
		return time.Time{}, errors.New("secret must contain tls.crt and tls.key in data field")
	}
	cert, err := base64.StdEncoding.DecodeString(s.Cert)
	if err != nil {
		return time.Time{}, fmt.Errorf("failed to decode tls.crt from secret %s", s.Name)
	}
	key, err := base64.StdEncoding.DecodeString(s.Key)
	if err != nil {
		return time.Time{}, fmt.Errorf("failed to decode tls.key from secret %s", s.Name)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return time.Time{}, fmt.Errorf("failed to create tls certificate from secret %s", s.Name)
	}
	if s.Type != "kubernetes.io/tls" {
		return time.Time{}, fmt.Errorf("secret %s is not of type kubernetes.io/tls", s.Name)
	}
	return pair.Leaf.NotBefore, nil
}
